// Finds NVIDIA's libraries at run time and opens them by path, in this order: the directories of
// MTL_CUDA_LIBS, the dynamic linker's search by name, CUDA_HOME and CUDA_PATH, NVIDIA's wheels in the Python
// environment (VIRTUAL_ENV, CONDA_PREFIX, python3), and the usual directories of the system.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"

namespace mtl::comm::nccl {

struct LibraryRequest {
  const char* name;           // "libnccl.so.2"
  std::vector<const char*> wheel_folders;  // paths within site-packages, in order of preference; may contain wildcards
  const char* remedy;         // how to install it
};

struct LoadedLibrary {
  void* handle = nullptr;  // open until the process ends, because the library has threads and state
  std::string path;
};

// Finds and opens a library. Fails with MTL_NCCL_NOT_FOUND, which lists every path and its error. It also
// fails if a library in a directory of MTL_CUDA_LIBS cannot be opened, because the user has named this
// directory.
Status load_library(const LibraryRequest& request, LoadedLibrary* library);

}  // namespace mtl::comm::nccl

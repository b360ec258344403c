#include "engines/nccl/library_search.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace mtl::comm::nccl {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string path_of(void* handle, const char* name) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0' ? map->l_name : name;
}

// Asks the python3 on PATH for the directory where pip installs packages. Starting Python takes 20 ms, so
// this directory is one of the last places to search.
std::string python_packages() {
  const char* command = "python3 -c 'import sysconfig;print(sysconfig.get_paths()[\"purelib\"])' 2>/dev/null";
  FILE* pipe = popen(command, "r");
  if (pipe == nullptr) return "";
  char line[4096];
  std::string text = std::fgets(line, sizeof(line), pipe) == nullptr ? "" : line;
  pclose(pipe);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// One search for a library: it tries paths and records the result of each.
class Search {
 public:
  Search(const LibraryRequest& request, LoadedLibrary* library) : request_(request), library_(library) {}

  const std::string& tried() const { return tried_; }

  bool open(const std::string& path) {
    if (path.find('/') != std::string::npos && access(path.c_str(), F_OK) != 0) return note(path, "not there"), false;
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) {
      const char* reason = dlerror();
      return note(path, reason == nullptr ? "cannot be opened" : reason), false;
    }
    *library_ = {handle, path_of(handle, path.c_str())};
    return true;
  }

  // Tries to open the library in `folder`, which may contain wildcards.
  bool open_in(const std::string& folder) {
    glob_t found = {};
    const std::string pattern = folder + "/" + request_.name;
    bool is_open = false;
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
      for (size_t index = 0; index < found.gl_pathc && !is_open; ++index) is_open = open(found.gl_pathv[index]);
    } else {
      note(pattern, "not there");
    }
    globfree(&found);
    return is_open;
  }

  bool open_in_wheels(const std::string& packages) {
    for (const char* folder : request_.wheel_folders) {
      if (open_in(packages + "/" + folder)) return true;
    }
    return false;
  }

  bool open_in_toolkit(const std::string& root) {
    return open_in(root + "/lib64") || open_in(root + "/lib") || open_in(root + "/targets/*/lib");
  }

 private:
  void note(const std::string& path, const std::string& reason) { tried_ += "\n  " + path + ": " + reason; }

  const LibraryRequest& request_;
  LoadedLibrary* const library_;
  std::string tried_;
};

Status not_found(const LibraryRequest& request, const std::string& what, const std::string& tried) {
  Failure failure;
  failure.code = "MTL_NCCL_NOT_FOUND";
  failure.message = std::string(request.name) + " " + what + "; tried:" + tried + "\n  remedy: " + request.remedy;
  return Status(std::move(failure));
}

}  // namespace

Status load_library(const LibraryRequest& request, LoadedLibrary* library) {
  Search search(request, library);
  std::string rest = environment("MTL_CUDA_LIBS");
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    const std::string path = rest.substr(0, end) + "/" + request.name;
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
    if (search.open(path)) return ok_status();
    if (access(path.c_str(), F_OK) == 0) {
      return not_found(request, "of MTL_CUDA_LIBS cannot be opened", search.tried());
    }
  }
  if (search.open(request.name)) return ok_status();
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = environment(variable);
    if (!root.empty() && search.open_in_toolkit(root)) return ok_status();
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string root = environment(variable);
    if (root.empty()) continue;
    if (search.open_in_wheels(root + "/lib/python3*/site-packages") || search.open_in(root + "/lib")) {
      return ok_status();
    }
  }
  const std::string packages = python_packages();
  if (!packages.empty() && search.open_in_wheels(packages)) return ok_status();
  for (const char* folder : {"/usr/local/cuda*/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64", "/usr/lib/wsl/lib"}) {
    if (search.open_in(folder)) return ok_status();
  }
  return not_found(request, "was not found", search.tried());
}

}  // namespace mtl::comm::nccl

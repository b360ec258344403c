#include "tests/cuda_for_tests.h"

#include <cstdlib>
#include <sstream>
#include <string>

#include "backends/cuda/loader/cuda_loader.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

bool is_gpu = false, is_linked = false;

// The library's paths in each folder of a colon-separated list, one per line.
std::string candidates_in(const std::string& folders) {
  std::istringstream list(folders);
  std::string candidates, folder;
  while (std::getline(list, folder, ':')) {
    if (!folder.empty()) candidates += folder + "/libcublasLt.so.13\n" + folder + "/libcublasLt.so.12\n";
  }
  return candidates;
}

Status open() {
  const CudaLibrary* library = mtl_cuda_library();  // the emulation
  std::string cublaslt = MTL_EMULATED_CUBLASLT;
  if (const char* path = std::getenv("MTL_CUDA_LIBRARY")) {
    MTL_RETURN_IF_ERROR(load_cuda_library(path, &library));
    const char* const folders = std::getenv("MTL_CUDA_LIBS");
    cublaslt = folders == nullptr ? "libcublasLt.so.13\nlibcublasLt.so.12" : candidates_in(folders);
  }
  CudaLibraryInformation information;
  MTL_RETURN_IF_ERROR(open_cuda(*library, {0, cublaslt.c_str(), false}, &information));
  const std::string name = information.probe.devices[0].name;
  is_gpu = name.rfind("emulation", 0) != 0;
  is_linked = library == mtl_cuda_library();
  std::printf("  device cuda: %s, cuBLASLt %s\n", information.probe.devices[0].name, information.cublaslt_path);
  return ok_status();
}

}  // namespace

bool open_cuda_for_tests() {
  static const bool is_open = succeeded(open());
  EXPECT(is_open);
  return is_open;
}

bool is_gpu_under_test() { return open_cuda_for_tests() && is_gpu; }

bool is_linked_emulation_under_test() { return open_cuda_for_tests() && is_linked; }

}  // namespace mtl::tests

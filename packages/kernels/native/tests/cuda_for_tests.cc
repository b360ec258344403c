#include "tests/cuda_for_tests.h"

#include <cstdlib>
#include <string>

#include "backends/cuda/cuda_loader.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

Status open() {
  const CudaLibrary* library = mtl_cuda_library();  // the emulation
  std::string cublaslt = MTL_EMULATED_CUBLASLT;
  if (const char* path = std::getenv("MTL_CUDA_LIBRARY")) {
    MTL_RETURN_IF_ERROR(load_cuda_library(path, &library));
    const char* const folder = std::getenv("MTL_CUDA_LIBS");
    cublaslt = folder == nullptr ? "libcublasLt.so.13\nlibcublasLt.so.12"
                                 : std::string(folder) + "/libcublasLt.so.13\n" + folder + "/libcublasLt.so.12";
  }
  CudaLibraryInformation information;
  MTL_RETURN_IF_ERROR(open_cuda(*library, {0, cublaslt.c_str(), false}, &information));
  std::printf("  device cuda: %s, cuBLASLt %s\n", information.probe.devices[0].name, information.cublaslt_path);
  return ok_status();
}

}  // namespace

bool open_cuda_for_tests() {
  static const bool is_open = succeeded(open());
  EXPECT(is_open);
  return is_open;
}

}  // namespace mtl::tests

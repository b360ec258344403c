// A CUDA library as a later version of this project might build it: only its version can be read.
#include "backends/cuda/cuda_library.h"

static const mtl::CudaLibrary library = {mtl::kCudaLibraryAbiVersion + 1, mtl::kBackendAbiVersion, nullptr, nullptr,
                                         nullptr, nullptr};

const mtl::CudaLibrary* mtl_cuda_library() { return &library; }

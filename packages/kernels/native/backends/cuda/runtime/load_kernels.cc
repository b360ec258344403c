#include "backends/cuda/runtime/load_kernels.h"

#include <cuda_runtime.h>

#include "backends/cuda/listed_kernels.h"

namespace mtl::cuda {

Status load_kernels() {
  for (const ListedKernel* listed = first_listed_kernel; listed != nullptr; listed = listed->next) {
    cudaFuncAttributes attributes;  // to return a kernel's attributes, the runtime loads the kernel
    MTL_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, listed->kernel));
  }
  return ok_status();
}

}  // namespace mtl::cuda

#include "cuda/runtime/cuda_status.h"

namespace mtl::cuda {

Status cuda_status(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return ok_status();
  // errors of kernels surface at any later call: what is named need not be what failed
  cudaGetLastError();
  const char* const code = error == cudaErrorMemoryAllocation ? "MTL_OUT_OF_MEMORY" : "MTL_CUDA";
  return error_status(code, "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace mtl::cuda

#include "backends/cuda/runtime/cuda_status.h"

namespace mtl::cuda {

Status cuda_status(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return ok_status();
  // any later call may report an error that a kernel caused, so the message may name a call that did not fail
  cudaGetLastError();
  constexpr int kFirstOfCapture = 900, kLastOfCapture = 908;  // cudaErrorStreamCapture... and related errors
  const bool is_of_capture = error >= kFirstOfCapture && error <= kLastOfCapture;
  const char* const code = error == cudaErrorMemoryAllocation ? "MTL_OUT_OF_MEMORY" : is_of_capture ? "MTL_CAPTURE" : "MTL_CUDA";
  return error_status(code, "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace mtl::cuda

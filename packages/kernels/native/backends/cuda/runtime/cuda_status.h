// Converts CUDA errors to a Status: MTL_OUT_OF_MEMORY, MTL_CAPTURE or MTL_CUDA. The message names the error
// and the call.
#pragma once

#include <cuda_runtime.h>

#include "core/status.h"

namespace mtl::cuda {

Status cuda_status(cudaError_t error, const char* what);

}  // namespace mtl::cuda

#define MTL_RETURN_IF_CUDA_ERROR(call) MTL_RETURN_IF_ERROR(::mtl::cuda::cuda_status((call), #call))

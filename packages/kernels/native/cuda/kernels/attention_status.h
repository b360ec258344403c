// What the ops of attention say of what the launches of cuda/attention return.
#pragma once

#include <cstdlib>

#include "cuda/attention/attention.h"
#include "cuda/kernels/dispatch.h"

namespace mtl::cuda {

inline Status attention_status(const OpCall& call, DType dtype, int64_t head_size, cudaError_t error) {
  if (!is_attention_variable_known()) {
    return error_status("MTL_CUDA", "%s: %s=%s, expected mma.sync (the kernels for any card) or no value at all", call.op,
                        kAttentionVariable, std::getenv(kAttentionVariable));
  }
  if (error != cudaErrorNotSupported) return cuda_status(error, call.op);
  return error_status("MTL_UNSUPPORTED", "%s: %s with a head size of %lld, expected float32, bfloat16 or float16 and at "
                      "most %lld", call.op, name_of(dtype), static_cast<long long>(head_size),
                      static_cast<long long>(kMaxAttentionHeadSize));
}

}  // namespace mtl::cuda

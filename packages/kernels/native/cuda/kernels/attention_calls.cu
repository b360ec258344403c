#include "cuda/kernels/attention_calls.h"

#include <cstdlib>

#include "cuda/attention/attention.h"
#include "cuda/kernels/dispatch.h"

namespace mtl::cuda {
namespace {

Status status_of(const OpCall& call, const TensorView& qkv, cudaError_t error) {
  if (!is_attention_variable_known()) {
    return error_status("MTL_CUDA", "%s: %s=%s, expected mma.sync (the kernels for any GPU) or no value at all", call.op,
                        kAttentionVariable, std::getenv(kAttentionVariable));
  }
  if (error != cudaErrorNotSupported) return cuda_status(error, call.op);
  return error_status("MTL_UNSUPPORTED", "%s: %s with a head size of %lld, expected float32, bfloat16 or float16 and at "
                      "most %lld", call.op, name_of(qkv.dtype), static_cast<long long>(qkv.dim(-1)),
                      static_cast<long long>(kMaxAttentionHeadSize));
}

}  // namespace

Status run_attention_forward(const OpCall& call, const AttentionProblem& problem) {
  const TensorView& qkv = call.tensor(kAttentionQkv);
  MTL_RETURN_IF_ERROR(use_device());
  return status_of(call, qkv,
                   attention_forward({problem, qkv.dtype, call.tensor(kAttentionOutput).data,
                                      call.data<float>(kAttentionLogSumExp), qkv.data, compute_stream()}));
}

Status run_attention_backward(const OpCall& call, const AttentionProblem& problem) {
  const TensorView& qkv = call.tensor(kAttentionBackwardQkv);
  const DeviceScratch delta(static_cast<size_t>(call.tensor(kAttentionBackwardLogSumExp).size()) * sizeof(float));
  if (delta.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "%s: no memory for partial sums", call.op);
  MTL_RETURN_IF_ERROR(use_device());
  return status_of(call, qkv,
                   attention_backward({problem, qkv.dtype, call.tensor(kAttentionQkvGradient).data,
                                       call.tensor(kAttentionOutputGradient).data,
                                       call.tensor(kAttentionBackwardOutput).data,
                                       call.data<float>(kAttentionBackwardLogSumExp), qkv.data, delta.as<float>(),
                                       compute_stream()}));
}

}  // namespace mtl::cuda

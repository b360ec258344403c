// attention_forward and attention_backward: the ops over the kernels of cuda/attention.
#include "cuda/kernels/attention_status.h"

namespace mtl::cuda {
namespace {

Status forward(const OpCall& call) {
  const TensorView& qkv = call.tensor(kAttentionQkv);
  if (qkv.size() == 0) return ok_status();
  MTL_RETURN_IF_ERROR(use_device());
  return attention_status(call, qkv.dtype, qkv.dim(4),
                           attention_forward({attention_problem(call, kAttentionQkv), qkv.dtype, call.tensor(kAttentionOutput).data,
                                              call.data<float>(kAttentionLogSumExp), qkv.data, compute_stream()}));
}

Status backward(const OpCall& call) {
  const TensorView& qkv = call.tensor(kAttentionBackwardQkv);
  if (qkv.size() == 0) return ok_status();
  const DeviceScratch delta(static_cast<size_t>(call.tensor(kAttentionBackwardLogSumExp).size()) * sizeof(float));
  if (delta.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "%s: no memory for partial sums", call.op);
  MTL_RETURN_IF_ERROR(use_device());
  return attention_status(call, qkv.dtype, qkv.dim(4),
                           attention_backward({attention_problem(call, kAttentionBackwardQkv), qkv.dtype,
                                               call.tensor(kAttentionQkvGradient).data, call.tensor(kAttentionOutputGradient).data,
                                               call.tensor(kAttentionBackwardOutput).data,
                                               call.data<float>(kAttentionBackwardLogSumExp), qkv.data, delta.as<float>(),
                                               compute_stream()}));
}

MTL_REGISTER_CUDA("attention_forward", forward);
MTL_REGISTER_CUDA("attention_backward", backward);

}  // namespace
}  // namespace mtl::cuda

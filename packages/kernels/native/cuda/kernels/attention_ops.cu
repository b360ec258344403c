// attention_forward and attention_backward: the ops over the kernels of cuda/attention.
#include "cuda/attention/attention.h"
#include "cuda/kernels/dispatch.h"

namespace mtl::cuda {
namespace {

Status status_of(const OpCall& call, const TensorView& qkv, cudaError_t error) {
  if (error != cudaErrorNotSupported) return cuda_status(error, call.op);
  return error_status("MTL_UNSUPPORTED", "%s: %s with a head size of %lld, expected float32, bfloat16 or float16 and at "
                      "most %lld", call.op, name_of(qkv.dtype), static_cast<long long>(qkv.dim(4)),
                      static_cast<long long>(kMaxAttentionHeadSize));
}

Status forward(const OpCall& call) {
  const TensorView& qkv = call.tensor(kAttentionQkv);
  if (qkv.size() == 0) return ok_status();
  MTL_RETURN_IF_ERROR(use_device());
  return status_of(call, qkv,
                   attention_forward({attention_problem(call, kAttentionQkv), qkv.dtype, call.tensor(kAttentionOutput).data,
                                      call.data<float>(kAttentionLogSumExp), qkv.data, compute_stream()}));
}

Status backward(const OpCall& call) {
  const TensorView& qkv = call.tensor(kAttentionBackwardQkv);
  if (qkv.size() == 0) return ok_status();
  const DeviceScratch delta(static_cast<size_t>(call.tensor(kAttentionBackwardLogSumExp).size()) * sizeof(float));
  if (delta.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "%s: no memory for partial sums", call.op);
  MTL_RETURN_IF_ERROR(use_device());
  return status_of(call, qkv,
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

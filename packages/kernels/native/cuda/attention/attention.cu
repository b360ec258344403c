// Which kernels compute a call.
#include "cuda/attention/arguments.h"
#include "cuda/attention/hopper.h"

namespace mtl::cuda {
namespace {

bool is_supported(const AttentionProblem& problem, DType dtype) {
  const bool known = dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
  // 32-bit indices of positions and heads; the head is a grid's second dimension, which ends at 65535
  return known && problem.head_size <= kMaxAttentionHeadSize && problem.sequence < (int64_t{1} << 31) - 1024 &&
         problem.batch * problem.heads < 65536;
}

bool fits_tensor_cores(const AttentionProblem& problem, DType dtype) {
  return dtype != DType::kFloat32 && problem.head_size % 8 == 0;
}

bool is_empty(const AttentionProblem& problem) { return problem.sequence * problem.batch * problem.heads == 0; }

}  // namespace

cudaError_t attention_forward(const AttentionForward& call) {
  if (!is_supported(call.problem, call.dtype)) return cudaErrorNotSupported;
  if (!is_attention_variable_known()) return cudaErrorInvalidValue;
  if (is_empty(call.problem)) return cudaSuccess;
  if (!(fits_tensor_cores(call.problem, call.dtype) && is_aligned(call.qkv) && is_aligned(call.output))) {
    return launch_plain_attention_forward(call);
  }
  return is_for_hopper(call.problem) ? launch_hopper_attention_forward(call) : launch_attention_forward(call);
}

cudaError_t attention_backward(const AttentionBackward& call) {
  if (!is_supported(call.problem, call.dtype)) return cudaErrorNotSupported;
  if (!is_attention_variable_known()) return cudaErrorInvalidValue;
  if (is_empty(call.problem)) return cudaSuccess;
  cudaError_t status = launch_attention_delta(call);
  if (status != cudaSuccess) return status;
  if (!(fits_tensor_cores(call.problem, call.dtype) && is_aligned(call.qkv) && is_aligned(call.qkv_gradient) &&
        is_aligned(call.output_gradient))) {
    return launch_plain_attention_backward(call);
  }
  if (is_for_hopper(call.problem)) return launch_hopper_attention_backward(call);
  status = launch_attention_query_gradient(call);
  return status == cudaSuccess ? launch_attention_key_value_gradient(call) : status;
}

}  // namespace mtl::cuda

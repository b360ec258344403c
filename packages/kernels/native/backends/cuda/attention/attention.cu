// Which kernels compute a call.
#include "backends/cuda/attention/arguments.h"
#include "backends/cuda/attention/hopper.h"

namespace mtl::cuda {
namespace {

bool is_supported(const AttentionProblem& problem) {
  const DType dtype = problem.dtype;
  const bool known = dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
  // 32-bit indices of positions and heads; the head is a grid's second dimension, which ends at 65535
  return known && problem.head_size <= kMaxAttentionHeadSize && problem.num_queries < (int64_t{1} << 31) - 1024 &&
         problem.batch * problem.heads < 65536 && has_supported_layout(problem);
}

bool fits_tensor_cores(const AttentionProblem& problem) {
  return problem.dtype != DType::kFloat32 && problem.head_size % 8 == 0;
}

bool is_empty(const AttentionProblem& problem) { return problem.num_queries * problem.batch * problem.heads == 0; }

bool is_projection(const AttentionProblem& problem, const AttentionOperand& query, const AttentionOperand& key,
                   const AttentionOperand& value) {
  const char* const data = static_cast<const char*>(query.data);
  const int64_t size = problem.head_size, row = 3 * problem.heads * size * (problem.starts == nullptr ? problem.batch : 1);
  const int64_t bytes = size * static_cast<int64_t>(size_of(problem.dtype));
  return query.position == row && query.group == 3 * size && key.data == data + bytes && value.data == data + 2 * bytes;
}

}  // namespace

bool has_supported_layout(const AttentionProblem& problem) {
  const AttentionProblem& p = problem;
  return p.groups == p.heads && p.num_queries == p.num_keys && p.first_query == 0 &&
         is_projection(p, p.query, p.key, p.value) &&
         (p.query_gradient.data == nullptr || is_projection(p, p.query_gradient, p.key_gradient, p.value_gradient));
}

cudaError_t attention_forward(const AttentionForwardCall& call) {
  if (!is_supported(call.problem)) return cudaErrorNotSupported;
  if (!is_attention_variable_known()) return cudaErrorInvalidValue;
  if (is_empty(call.problem)) return cudaSuccess;
  const AttentionProblem& problem = call.problem;
  if (!(fits_tensor_cores(problem) && is_aligned(problem.query.data) && is_aligned(problem.output.data))) {
    return launch_plain_attention_forward(call);
  }
  return is_for_hopper(call.problem) ? launch_hopper_attention_forward(call) : launch_attention_forward(call);
}

cudaError_t attention_backward(const AttentionBackwardCall& call) {
  if (!is_supported(call.problem)) return cudaErrorNotSupported;
  if (!is_attention_variable_known()) return cudaErrorInvalidValue;
  if (is_empty(call.problem)) return cudaSuccess;
  cudaError_t status = launch_attention_delta(call);
  if (status != cudaSuccess) return status;
  const AttentionProblem& problem = call.problem;
  if (!(fits_tensor_cores(problem) && is_aligned(problem.query.data) && is_aligned(problem.query_gradient.data) &&
        is_aligned(problem.output_gradient.data))) {
    return launch_plain_attention_backward(call);
  }
  if (is_for_hopper(call.problem)) return launch_hopper_attention_backward(call);
  status = launch_attention_query_gradient(call);
  return status == cudaSuccess ? launch_attention_key_value_gradient(call) : status;
}

}  // namespace mtl::cuda

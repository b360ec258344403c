// Selects the kernels for a call.
#include "backends/cuda/attention/arguments.h"
#include "backends/cuda/attention/hopper.h"

namespace mtl::cuda {
namespace {

bool is_supported(const AttentionProblem& problem) {
  const DType dtype = problem.dtype;
  const bool known = dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
  // positions and heads have 32-bit indices; the head is a grid's second dimension, at most 65535
  return known && problem.num_queries + problem.first_query < kNoWindow && problem.num_keys < kNoWindow &&
         problem.batch * problem.heads < 65536 && has_supported_layout(problem);
}

// Whether a problem asks for the output alone, over a range of one key or more for every query.
bool is_without_statistics(const AttentionProblem& problem) {
  return problem.log_sum_exp == nullptr && problem.first_query < problem.num_keys && problem.starts == nullptr &&
         problem.key_start == nullptr && problem.key_mask == nullptr && problem.dropout_probability == 0.0;
}

bool is_empty(const AttentionProblem& problem) { return problem.num_queries * problem.batch * problem.heads == 0; }

// Alignment for 16-byte accesses of 16-bit elements.
bool has_aligned_rows(const AttentionOperand& operand) {
  return is_aligned(operand.data) && operand.position % 8 == 0 && operand.sample % 8 == 0 && operand.group % 8 == 0 &&
         operand.member % 8 == 0;
}

// Tensor-core kernels locate values relative to keys.
bool has_values_like_keys(const AttentionProblem& problem) {
  const AttentionOperand &key = problem.key, &value = problem.value;
  return key.position == value.position && key.sample == value.sample && key.group == value.group;
}

template <typename... Operands>
bool fits_tensor_cores(const AttentionProblem& problem, const Operands&... operands) {
  return problem.dtype != DType::kFloat32 && problem.head_size % 8 == 0 && problem.num_keys == problem.num_queries &&
         problem.first_query == 0 && problem.log_sum_exp != nullptr && has_values_like_keys(problem) &&
         (has_aligned_rows(operands) && ...);
}

// Whether the operand is a tensor [S, B, A, D] or [T, A, D].
bool is_contiguous(const AttentionProblem& problem, const AttentionOperand& operand) {
  const int64_t size = problem.head_size, row = problem.heads * size, samples = problem.starts == nullptr ? problem.batch : 1;
  return operand.position == samples * row && (samples == 1 || operand.sample == row) && operand.member == size &&
         operand.group * problem.groups == row;
}

}  // namespace

bool has_supported_layout(const AttentionProblem& problem) {
  return is_contiguous(problem, problem.output) &&
         (problem.output_gradient.data == nullptr || is_contiguous(problem, problem.output_gradient));
}

cudaError_t attention_forward(const AttentionForwardCall& call) {
  if (!is_supported(call.problem)) return cudaErrorNotSupported;
  if (!is_attention_variable_known()) return cudaErrorInvalidValue;
  if (is_empty(call.problem)) return cudaSuccess;
  const AttentionProblem& p = call.problem;
  if (is_without_statistics(p)) return launch_attention_without_statistics(call);
  if (p.head_size > kMaxAttentionHeadSize) return cudaErrorNotSupported;
  if (!fits_tensor_cores(p, p.query, p.key, p.value, p.output)) return launch_plain_attention_forward(call);
  return is_for_hopper(p) ? launch_hopper_attention_forward(call) : launch_attention_forward(call);
}

cudaError_t attention_backward(const AttentionBackwardCall& call) {
  if (!is_supported(call.problem) || call.problem.head_size > kMaxAttentionHeadSize) return cudaErrorNotSupported;
  if (!is_attention_variable_known()) return cudaErrorInvalidValue;
  if (is_empty(call.problem)) return cudaSuccess;
  cudaError_t status = launch_attention_delta(call);
  if (status != cudaSuccess) return status;
  const AttentionProblem& p = call.problem;
  if (!fits_tensor_cores(p, p.query, p.key, p.value, p.output_gradient, p.query_gradient, p.key_gradient, p.value_gradient)) {
    return launch_plain_attention_backward(call);
  }
  if (is_for_hopper(p)) return launch_hopper_attention_backward(call);
  status = launch_attention_query_gradient(call);
  return status == cudaSuccess ? launch_attention_key_value_gradient(call) : status;
}

}  // namespace mtl::cuda

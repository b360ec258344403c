// Selects the attention kernels for a call.
#include "backends/cuda/attention/arguments.h"
#include "backends/cuda/attention/hopper.h"

namespace mtl::cuda {
namespace {

bool is_supported(const AttentionProblem& problem) {
  const Status status = check_attention("attention", problem);
  discard(status);
  return status.ok() && has_supported_layout(problem);
}

bool is_empty(const AttentionProblem& problem) { return problem.num_queries * problem.batch * problem.heads == 0; }

// Tells whether all rows are aligned for 16-byte accesses of 16-bit elements.
bool has_aligned_rows(const AttentionOperand& operand) {
  return is_aligned(operand.data) && operand.position % 8 == 0 && operand.sample % 8 == 0 && operand.group % 8 == 0 &&
         operand.member % 8 == 0;
}

// Tells whether values have the same layout as keys: tensor-core kernels locate values relative to keys.
bool has_values_like_keys(const AttentionProblem& problem) {
  const AttentionOperand &key = problem.key, &value = problem.value;
  return key.position == value.position && key.sample == value.sample && key.group == value.group;
}

template <typename Call, typename... Operands>
bool fits_tensor_cores(const Call& call, const AttentionOperand& result, const Operands&... operands) {
  const AttentionProblem& problem = call.problem;
  if (problem.starts != nullptr && (has_queries_apart(problem) || problem.window != kNoWindow || is_part(problem, result))) return false;
  if (has_first_keys(problem) && call.first_keys == nullptr) return false;
  // Dropout decides for groups of 64 keys, counted from the start of the sequence: tiles must begin where
  // groups begin
  if (problem.dropout_probability > 0 && problem.first_key % 64 != 0) return false;
  return problem.dtype != DType::kFloat32 && problem.head_size % 8 == 0 && has_values_like_keys(problem) &&
         has_aligned_rows(result) && (has_aligned_rows(operands) && ...);
}

// Converts a window to the first key that every query attends to, the form in which documents are given. Both
// count from the first key of the call.
__global__ void first_keys_kernel(int32_t* first_keys, int64_t count, AttentionArguments a) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    const int first = static_cast<int>(i % a.sequence) + a.first_position - a.window;
    const int start = a.key_start == nullptr ? 0 : max(a.key_start[i], 0) - a.first_key;
    first_keys[i] = max(first, start);
  }
}

// Replaces a call's window, and its key_start, which counts from the start of the sequence, by first keys for
// tensor cores.
template <typename Call>
cudaError_t replace_window(Call* call) {
  AttentionProblem& problem = call->problem;
  if (!has_first_keys(problem)) return cudaSuccess;
  const int64_t count = problem.batch * problem.num_queries;
  const Launch how = {dim3(64), 256, 0, call->stream};
  const cudaError_t status = MTL_LAUNCH(first_keys_kernel, how, call->first_keys, count, attention_arguments(problem));
  problem.key_start = call->first_keys;
  problem.window = kNoWindow;
  return status;
}

// Tells whether the operand is a tensor [S, B, A, D] or [T, A, D].
bool is_contiguous(const AttentionProblem& problem, const AttentionOperand& operand) {
  const int64_t size = problem.head_size, row = problem.heads * size, samples = problem.starts == nullptr ? problem.batch : 1;
  return operand.position == samples * row && (samples == 1 || operand.sample == row) && operand.member == size &&
         operand.group * problem.groups == row;
}

}  // namespace

bool has_supported_layout(const AttentionProblem& problem) {
  return is_contiguous(problem, problem.output.data == nullptr ? problem.output_gradient : problem.output);
}

cudaError_t attention_forward(const AttentionForwardCall& call) {
  if (!is_supported(call.problem)) return cudaErrorNotSupported;
  if (!is_attention_variable_known()) return cudaErrorInvalidValue;
  if (is_empty(call.problem)) return cudaSuccess;
  const AttentionProblem& p = call.problem;
  if (is_generation(p)) return launch_generation_attention(call);
  if (!fits_tensor_cores(call, p.output, p.query, p.key, p.value)) return launch_plain_attention_forward(call);
  AttentionForwardCall without_window = call;
  const cudaError_t status = replace_window(&without_window);
  if (status != cudaSuccess) return status;
  // with dropout, Hopper's kernel has no registers left for positions
  const bool is_part_with_dropout = is_part(p, p.output) && p.dropout_probability > 0;
  return is_for_hopper(p) && !is_part_with_dropout ? launch_hopper_attention_forward(without_window)
                                                   : launch_attention_forward(without_window);
}

cudaError_t attention_backward(const AttentionBackwardCall& call) {
  if (!is_supported(call.problem)) return cudaErrorNotSupported;
  if (!is_attention_variable_known()) return cudaErrorInvalidValue;
  if (is_empty(call.problem)) return cudaSuccess;
  const AttentionProblem& p = call.problem;
  if (!fits_tensor_cores(call, p.query_gradient, p.query, p.key, p.value, p.output_gradient, p.key_gradient, p.value_gradient)) {
    return launch_plain_attention_backward(call);
  }
  AttentionBackwardCall without_window = call;
  cudaError_t status = replace_window(&without_window);
  if (status != cudaSuccess) return status;
  if (is_for_hopper(p)) return launch_hopper_attention_backward(without_window);
  status = launch_attention_query_gradient(without_window);
  return status == cudaSuccess ? launch_attention_key_value_gradient(without_window) : status;
}

}  // namespace mtl::cuda

// attention_forward and attention_backward: the ops that run the kernels of cuda/attention. With packed
// samples, a grid has blocks for the length of the longest sample. The starts of samples are in device memory
// and, like all indices there, are not checked.
#include "backends/cuda/kernels/attention_calls.h"
#include "backends/cuda/kernels/dispatch.h"
#include "backends/cuda/scratch/attention.h"

namespace mtl::cuda {
namespace {

constexpr int64_t kRestBlocks = 32;  // few blocks suffice: few rows belong to no sample

// Writes zeros to the rows of an operand that belong to no sample; each group has rows for `members` heads.
template <typename T>
__global__ void clear_rest_kernel(AttentionOperand operand, const int32_t* end, int64_t rows, int64_t groups, int64_t members,
                                  int64_t size) {
  const int64_t columns = groups * members * size;
  for (int64_t i = *end * columns + int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows * columns;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = i / columns, head = i % columns / size;
    const int64_t at = row * operand.position + head / members * operand.group + head % members * operand.member + i % size;
    set(static_cast<T*>(operand.data) + at, 0.0f);
  }
}

// Writes the statistics [A, T] of rows that belong to no sample.
__global__ void empty_rest_kernel(float* log_sum_exp, const int32_t* end, int64_t rows, int64_t heads) {
  const int64_t rest = rows - *end;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < heads * rest; i += int64_t{gridDim.x} * blockDim.x) {
    log_sum_exp[i / rest * rows + *end + i % rest] = static_cast<float>(kEmptyLogSumExp);
  }
}

Status clear_rest(const OpCall& call, const AttentionProblem& problem, const AttentionOperand& operand, int64_t rows) {
  const int64_t members = operand.member == 0 ? 1 : problem.heads / problem.groups;
  return for_floating(call, operand.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    MTL_RUN_KERNEL(call, (clear_rest_kernel<T>), grid_of(kRestBlocks, kThreads), operand, operand.starts + problem.batch,
                   rows, problem.groups, members, problem.head_size);
    return ok_status();
  });
}

Status forward(const OpCall& call) {
  if (call.tensor(AttentionForward::kOutput).size() == 0) return ok_status();
  const AttentionProblem problem = attention_forward_problem(call);
  MTL_RETURN_IF_ERROR(check_attention(call.op, problem));  // before anything is written
  if (problem.starts != nullptr) {
    MTL_RETURN_IF_ERROR(clear_rest(call, problem, problem.output, problem.query_rows));
    if (problem.log_sum_exp != nullptr) {
      MTL_RUN_KERNEL(call, empty_rest_kernel, grid_of(kRestBlocks, kThreads), static_cast<float*>(problem.log_sum_exp),
                     problem.query_starts + problem.batch, problem.query_rows, problem.heads);
    }
  }
  return run_attention_forward(call, problem);
}

Status backward(const OpCall& call) {
  if (call.tensor(AttentionBackward::kOutputGradient).size() == 0) return ok_status();
  const AttentionProblem problem = attention_backward_problem(call);
  MTL_RETURN_IF_ERROR(check_attention(call.op, problem));
  if (problem.starts != nullptr && !problem.accumulate) {
    MTL_RETURN_IF_ERROR(clear_rest(call, problem, problem.query_gradient, problem.query_rows));
    MTL_RETURN_IF_ERROR(clear_rest(call, problem, problem.key_gradient, problem.rows));
    MTL_RETURN_IF_ERROR(clear_rest(call, problem, problem.value_gradient, problem.rows));
  }
  return run_attention_backward(call, problem);
}

MTL_REGISTER_CUDA("attention_forward", forward);
MTL_REGISTER_CUDA("attention_backward", backward);

}  // namespace
}  // namespace mtl::cuda

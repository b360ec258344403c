// packed_attention_forward and packed_attention_backward: the ops over the kernels of cuda/attention, whose
// grids are sized for the longest sample. Starts are in device memory and, like all indices there, not
// checked.
#include "backends/cuda/kernels/attention_calls.h"
#include "backends/cuda/kernels/dispatch.h"

namespace mtl::cuda {
namespace {

constexpr int64_t kRestBlocks = 32;  // few rows belong to no sample

// Writes zeros to the rows of [T, columns] that belong to no sample.
template <typename T>
__global__ void clear_rest_kernel(T* output, const int32_t* end, int64_t rows, int64_t columns) {
  for (int64_t i = *end * columns + int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows * columns;
       i += int64_t{gridDim.x} * blockDim.x) {
    set(output + i, 0.0f);
  }
}

// The statistics [A, T] of these rows.
__global__ void empty_rest_kernel(float* log_sum_exp, const int32_t* end, int64_t rows, int64_t heads) {
  const int64_t rest = rows - *end;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < heads * rest; i += int64_t{gridDim.x} * blockDim.x) {
    log_sum_exp[i / rest * rows + *end + i % rest] = static_cast<float>(kEmptyLogSumExp);
  }
}

Status clear_rest(const OpCall& call, const TensorView& tensor, const AttentionProblem& problem) {
  return for_floating(call, tensor.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    MTL_RUN_KERNEL(call, (clear_rest_kernel<T>), grid_of(kRestBlocks, kThreads), static_cast<T*>(tensor.data),
                   problem.starts + problem.batch, problem.rows, tensor.size() / problem.rows);
    return ok_status();
  });
}

Status forward(const OpCall& call) {
  if (call.tensor(PackedAttentionForward::kQkv).size() == 0) return ok_status();
  const AttentionProblem problem = packed_attention_forward_problem(call);
  MTL_RETURN_IF_ERROR(clear_rest(call, call.tensor(PackedAttentionForward::kOutput), problem));
  MTL_RUN_KERNEL(call, empty_rest_kernel, grid_of(kRestBlocks, kThreads), call.data<float>(PackedAttentionForward::kLogSumExp),
                 problem.starts + problem.batch, problem.rows, problem.heads);
  return run_attention_forward(call, problem);
}

Status backward(const OpCall& call) {
  if (call.tensor(PackedAttentionBackward::kQkv).size() == 0) return ok_status();
  const AttentionProblem problem = packed_attention_backward_problem(call);
  MTL_RETURN_IF_ERROR(clear_rest(call, call.tensor(PackedAttentionBackward::kQkvGradient), problem));
  return run_attention_backward(call, problem);
}

MTL_REGISTER_CUDA("packed_attention_forward", forward);
MTL_REGISTER_CUDA("packed_attention_backward", backward);

}  // namespace
}  // namespace mtl::cuda

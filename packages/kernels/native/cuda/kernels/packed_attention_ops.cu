// packed_attention_forward and packed_attention_backward: the ops over the kernels of cuda/attention, whose grids go by
// the longest sample. Starts are in device memory and not checked, as no index in device memory is.
#include "cuda/kernels/attention_status.h"

namespace mtl::cuda {
namespace {

constexpr int64_t kRestBlocks = 32;  // rows of nobody are few

// Zeros in the rows of [T, columns] that are nobody's.
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
  const TensorView& qkv = call.tensor(kAttentionQkv);
  if (qkv.size() == 0) return ok_status();
  MTL_RETURN_IF_ERROR(use_device());
  const AttentionProblem problem = packed_attention_problem(call, kAttentionQkv);
  const TensorView& output = call.tensor(kAttentionOutput);
  float* log_sum_exp = call.data<float>(kAttentionLogSumExp);
  MTL_RETURN_IF_ERROR(clear_rest(call, output, problem));
  MTL_RUN_KERNEL(call, empty_rest_kernel, grid_of(kRestBlocks, kThreads), log_sum_exp, problem.starts + problem.batch,
                 problem.rows, problem.heads);
  return attention_status(call, qkv.dtype, qkv.dim(3),
                           attention_forward({problem, qkv.dtype, output.data, log_sum_exp, qkv.data, compute_stream()}));
}

Status backward(const OpCall& call) {
  const TensorView& qkv = call.tensor(kAttentionBackwardQkv);
  if (qkv.size() == 0) return ok_status();
  const DeviceScratch delta(static_cast<size_t>(call.tensor(kAttentionBackwardLogSumExp).size()) * sizeof(float));
  if (delta.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "%s: no memory for partial sums", call.op);
  MTL_RETURN_IF_ERROR(use_device());
  const AttentionProblem problem = packed_attention_problem(call, kAttentionBackwardQkv);
  MTL_RETURN_IF_ERROR(clear_rest(call, call.tensor(kAttentionQkvGradient), problem));
  return attention_status(call, qkv.dtype, qkv.dim(3),
                           attention_backward({problem, qkv.dtype, call.tensor(kAttentionQkvGradient).data,
                                               call.tensor(kAttentionOutputGradient).data,
                                               call.tensor(kAttentionBackwardOutput).data,
                                               call.data<float>(kAttentionBackwardLogSumExp), qkv.data, delta.as<float>(),
                                               compute_stream()}));
}

MTL_REGISTER_CUDA("packed_attention_forward", forward);
MTL_REGISTER_CUDA("packed_attention_backward", backward);

}  // namespace
}  // namespace mtl::cuda

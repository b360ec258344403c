// sum_of_squares: each block sums a fixed number of elements in double. A single block adds these sums in
// order, so that the result depends only on the values.
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/dispatch.h"
#include "backends/cuda/scratch/reductions.h"
#include "ops/reductions.h"

namespace mtl::cuda {
namespace {

__global__ void squares_kernel(double* partial, const float* input, int64_t size, bool aligned) {
  MTL_SHARED(double, shared, [kMaxWarps]);
  const int64_t first = int64_t{blockIdx.x} * kSquaresChunk;
  double total = 0.0;
#pragma unroll
  for (int access = 0; access < kSquareAccesses; ++access) {
    const int64_t at = first + (int64_t{access} * kThreads + threadIdx.x) * 4;
    float values[4] = {};
    if (aligned && at + 4 <= size) {
      load(values, input + at);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) values[i] = at + i < size ? input[at + i] : 0.0f;
    }
    const float pair = values[0] * values[0] + values[1] * values[1], other = values[2] * values[2] + values[3] * values[3];
    total += static_cast<double>(pair) + static_cast<double>(other);
  }
  total = block_reduce<Sum>(total, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

__global__ void add_squares_kernel(double* output, const double* partial, int64_t count, bool accumulate) {
  MTL_SHARED(double, shared, [kMaxWarps]);
  double total = 0.0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) total += partial[i];
  total = block_reduce<Sum>(total, shared);
  if (threadIdx.x == 0) output[0] = accumulate ? output[0] + total : total;
}

Status sum_of_squares(const OpCall& call) {
  using Op = SumOfSquares;
  if (call.tensor(Op::kInput).dtype != DType::kFloat32) {
    return error_status("MTL_DTYPE", "sum_of_squares: float64 is computed on the reference device only");
  }
  const int64_t size = call.tensor(Op::kInput).size(), num_chunks = ceiling(size, kSquaresChunk);
  const float* const input = call.data<float>(Op::kInput);
  KernelScratch scratch;
  MTL_RETURN_IF_ERROR(scratch.take(call));
  double* const partial = scratch.as<double>(0);
  MTL_RUN_KERNEL(call, squares_kernel, grid_of(num_chunks, kThreads), partial, input, size,
                 is_aligned(input));
  MTL_RUN_KERNEL(call, add_squares_kernel, grid_of(1, kThreads), call.data<double>(Op::kOutput), partial,
                 num_chunks,
                 call.flag(Op::kAccumulate));
  return ok_status();
}

MTL_REGISTER_CUDA("sum_of_squares", sum_of_squares);

}  // namespace
}  // namespace mtl::cuda

// weighted_sum: a single block, because a micro-batch has few tokens. A single block adds in a fixed order
// without a second pass.
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/dispatch.h"
#include "ops/reductions.h"

namespace mtl::cuda {
namespace {

constexpr int kSumThreads = 512;

__global__ void __launch_bounds__(kSumThreads)
    weighted_sum_kernel(double* output, const float* values, const float* weights, int64_t size) {
  MTL_SHARED(double, shared, [kMaxWarps]);
  double total = 0.0;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) total += static_cast<double>(values[i]) * weights[i];
  total = block_reduce<Sum>(total, shared);
  if (threadIdx.x == 0) output[0] = total;
}

Status weighted_sum(const OpCall& call) {
  using Op = WeightedSum;
  if (call.tensor(Op::kValues).dtype != DType::kFloat32) {
    return error_status("MTL_DTYPE", "weighted_sum: float64 is computed on the reference device only");
  }
  MTL_RUN_KERNEL(call, weighted_sum_kernel, grid_of(1, kSumThreads), call.data<double>(Op::kOutput),
                 call.data<float>(Op::kValues),
                 call.data<float>(Op::kWeights), call.tensor(Op::kValues).size());
  return ok_status();
}

MTL_REGISTER_CUDA("weighted_sum", weighted_sum);

}  // namespace
}  // namespace mtl::cuda

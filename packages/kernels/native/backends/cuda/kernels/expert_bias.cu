// update_expert_bias and add_counts: one block. Its threads loop over the experts.
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/dispatch.h"
#include "ops/expert_bias.h"

namespace mtl::cuda {
namespace {

__global__ void update_kernel(float* bias, const int64_t* counts, int64_t experts, double rate) {
  MTL_SHARED(long long, shared, [kMaxWarps]);
  long long sum = 0;
  for (int64_t e = threadIdx.x; e < experts; e += blockDim.x) sum += counts[e];
  sum = block_reduce<Sum>(sum, shared);
  for (int64_t e = threadIdx.x; e < experts; e += blockDim.x) {
    const long long times = experts * counts[e];
    if (times != sum) bias[e] = static_cast<float>(static_cast<double>(bias[e]) + (sum > times ? rate : -rate));
  }
}

__global__ void add_counts_kernel(int64_t* counts, const int32_t* offsets, int64_t experts) {
  for (int64_t e = threadIdx.x; e < experts; e += blockDim.x) counts[e] += int64_t{offsets[e + 1]} - offsets[e];
}

Status update_expert_bias(const OpCall& call) {
  using Op = UpdateExpertBias;
  const int64_t experts = call.tensor(Op::kCounts).size();
  MTL_RUN_KERNEL(call, update_kernel, grid_of(1, row_threads(experts)), call.data<float>(Op::kExpertBias),
                 call.data<int64_t>(Op::kCounts), experts, call.attribute(Op::kRate));
  return ok_status();
}

Status add_counts(const OpCall& call) {
  using Op = AddCounts;
  const int64_t experts = call.tensor(Op::kCounts).size();
  MTL_RUN_KERNEL(call, add_counts_kernel, grid_of(1, row_threads(experts)), call.data<int64_t>(Op::kCounts),
                 call.data<int32_t>(Op::kOffsets), experts);
  return ok_status();
}

MTL_REGISTER_CUDA("update_expert_bias", update_expert_bias);
MTL_REGISTER_CUDA("add_counts", add_counts);

}  // namespace
}  // namespace mtl::cuda

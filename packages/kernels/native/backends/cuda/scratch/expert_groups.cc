#include "backends/cuda/scratch/expert_groups.h"

#include "core/op_registry.h"
#include "ops/expert_groups.h"

namespace mtl::cuda {
namespace {

Status group(const OpCall& call, const GpuProperties&, ScratchBlocks* blocks) {
  using Op = GroupByExpert;
  const SortedSlots sorted = {call.tensor(Op::kExperts).size(), call.tensor(Op::kOffsets).size() - 1};
  blocks->add(sorted.count_bytes());
  return ok_status();
}

// Declares memory for counts, and for the values that group_by_expert would return as outputs.
Status drop(const OpCall& call, const GpuProperties&, ScratchBlocks* blocks) {
  using Op = DropOverCapacity;
  const SortedSlots sorted = {call.tensor(Op::kExperts).size(), call.integer(Op::kNumExperts)};
  constexpr int64_t kBytes = sizeof(int32_t);
  blocks->add(sorted.count_bytes());
  blocks->add((sorted.experts + 1) * kBytes);
  blocks->add(sorted.slots * kBytes);
  blocks->add(sorted.slots * kBytes);
  return ok_status();
}

MTL_REGISTER_CUDA_SCRATCH("group_by_expert", group);
MTL_REGISTER_CUDA_SCRATCH("drop_over_capacity", drop);

}  // namespace
}  // namespace mtl::cuda

// Names for the operand indices of group_by_expert and drop_over_capacity. The contract is in
// expert_groups.cc.
#pragma once

namespace mtl {

struct GroupByExpert {
  enum Tensors { kOffsets, kPositions, kSources, kExperts };
};
struct DropOverCapacity {
  enum Tensors { kOutput, kExperts, kProbabilities };
  enum Attributes { kNumExperts, kCapacity, kByPosition };
};

}  // namespace mtl

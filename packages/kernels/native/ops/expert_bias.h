// Names for the operand indices of update_expert_bias and add_counts. The contract is in expert_bias.cc.
#pragma once

namespace mtl {

struct UpdateExpertBias {
  enum Tensors { kExpertBias, kCounts };
  enum Attributes { kRate };
};
struct AddCounts {
  enum Tensors { kCounts, kOffsets };
};

}  // namespace mtl

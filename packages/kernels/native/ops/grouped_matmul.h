// The operands of grouped_matmul and grouped_weight_gradient by name; the contract is in grouped_matmul.cc.
#pragma once

#include "core/op_call.h"

namespace mtl {

struct GroupedMatmul {
  enum Tensors { kOutput, kInput, kWeights, kOffsets };
  enum Attributes { kTransposeWeights };
};
struct GroupedWeightGradient {
  enum Tensors { kWeightGradient, kOutputGradient, kInput, kOffsets };
  enum Attributes { kAccumulate };
};

// R rows at most, G groups, N outputs, K inputs.
struct GroupedSizes {
  int64_t rows, groups, outputs, inputs;
};
GroupedSizes grouped_matmul_sizes(const OpCall& call);
GroupedSizes grouped_weight_gradient_sizes(const OpCall& call);

}  // namespace mtl

// Names for the operand indices of grouped_matmul and grouped_weight_gradient. The contract is in
// grouped_matmul.cc.
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

// The sizes of a call: at most R rows, G groups, N outputs, K inputs.
struct GroupedSizes {
  int64_t rows, groups, outputs, inputs;
};
inline GroupedSizes grouped_matmul_sizes(const OpCall& call) {
  using Op = GroupedMatmul;
  const TensorView &output = call.tensor(Op::kOutput), &weights = call.tensor(Op::kWeights);
  return {output.rows(), weights.dim(0), output.dim(-1), call.tensor(Op::kInput).dim(-1)};
}

inline GroupedSizes grouped_weight_gradient_sizes(const OpCall& call) {
  using Op = GroupedWeightGradient;
  const TensorView &input = call.tensor(Op::kInput), &gradient = call.tensor(Op::kWeightGradient);
  return {input.rows(), gradient.dim(0), gradient.dim(1), gradient.dim(2)};
}

}  // namespace mtl

// Names for the operand indices of grouped_sum_rows, grouped_bias_forward and grouped_bias_backward. The
// contract is in grouped_bias.cc.
#pragma once

namespace mtl {

struct GroupedSumRows {
  enum Tensors { kOutput, kInput, kWeights, kOffsets };
  enum Attributes { kAccumulate };
};
struct GroupedBiasForward {
  enum Tensors { kOutput, kInput, kBias, kProbabilities, kOffsets };
};
struct GroupedBiasBackward {
  enum Tensors { kProbabilitiesGradient, kOutputGradient, kBias, kOffsets };
};

}  // namespace mtl

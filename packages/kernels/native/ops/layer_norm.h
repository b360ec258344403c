// Names for the operand indices of layer_norm_forward and _backward. The contract is in layer_norm.cc.
#pragma once

namespace mtl {

struct LayerNormForward {
  enum Tensors { kOutput, kMean, kRstd, kInput, kWeight, kBias };
  enum Attributes { kEpsilon };
};
struct LayerNormBackward {
  enum Tensors {
    kInputGradient, kWeightGradient, kBiasGradient, kOutputGradient, kInput, kMean, kRstd, kWeight, kAddend
  };
};

}  // namespace mtl

// Names for the operand indices of rms_norm_forward and _backward. The contract is in rms_norm.cc.
#pragma once

namespace mtl {

struct RmsNormForward {
  enum Tensors { kOutput, kRstd, kInput, kWeight, kSquares };
  enum Attributes { kEpsilon, kWidth };
};
struct RmsNormBackward {
  enum Tensors { kInputGradient, kWeightGradient, kOutputGradient, kInput, kRstd, kWeight, kAddend, kProducts };
  enum Attributes { kWidth };
};

}  // namespace mtl

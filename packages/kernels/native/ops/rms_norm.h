// The operands of rms_norm_forward and _backward by name; the contract is in rms_norm.cc.
#pragma once

namespace mtl {

struct RmsNormForward {
  enum Tensors { kOutput, kRstd, kInput, kWeight };
  enum Attributes { kEpsilon };
};
struct RmsNormBackward {
  enum Tensors { kInputGradient, kWeightGradient, kOutputGradient, kInput, kRstd, kWeight, kAddend };
};

}  // namespace mtl

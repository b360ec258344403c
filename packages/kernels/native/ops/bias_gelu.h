// Names for the operand indices of bias_gelu_forward and _backward. The contract is in bias_gelu.cc.
#pragma once

namespace mtl {

struct BiasGeluForward {
  enum Tensors { kOutput, kInput, kBias };
  enum Attributes { kErf };
};
struct BiasGeluBackward {
  enum Tensors { kInputGradient, kOutputGradient, kInput, kBias };
  enum Attributes { kErf };
};

}  // namespace mtl

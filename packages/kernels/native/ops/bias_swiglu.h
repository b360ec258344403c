// Names for the operand indices of bias_swiglu_forward and _backward. The contract is in bias_swiglu.cc.
#pragma once

namespace mtl {

struct BiasSwigluForward {
  enum Tensors { kOutput, kInput, kBias };
};
struct BiasSwigluBackward {
  enum Tensors { kInputGradient, kOutputGradient, kInput, kBias };
};

}  // namespace mtl

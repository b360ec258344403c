// Names for the operand indices of bias_squared_relu_forward and _backward. The contract is in
// bias_squared_relu.cc.
#pragma once

namespace mtl {

struct BiasSquaredReluForward {
  enum Tensors { kOutput, kInput, kBias };
};
struct BiasSquaredReluBackward {
  enum Tensors { kInputGradient, kOutputGradient, kInput, kBias };
};

}  // namespace mtl

// Names for the operand indices of tanh_forward and _backward. The contract is in tanh.cc.
#pragma once

namespace mtl {

struct TanhForward {
  enum Tensors { kOutput, kInput };
};
struct TanhBackward {
  enum Tensors { kInputGradient, kOutputGradient, kOutput };
};

}  // namespace mtl

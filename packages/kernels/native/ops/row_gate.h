// Names for the operand indices of row_gate_forward and _backward. The contract is in row_gate.cc.
#pragma once

namespace mtl {

struct RowGateForward {
  enum Tensors { kOutput, kInput, kLogits };
};
struct RowGateBackward {
  enum Tensors { kInputGradient, kLogitsGradient, kOutputGradient, kInput, kLogits };
};

}  // namespace mtl

// Names for the operand indices of bias_dropout_residual_forward and _backward. The contract is in
// bias_dropout_residual.cc.
#pragma once

namespace mtl {

struct BiasDropoutResidualForward {
  enum Tensors { kOutput, kInput, kBias, kResidual, kSamples, kPositions };
  enum Attributes { kProbability, kKeyLow, kKeyHigh, kFirstColumn };
};
struct BiasDropoutResidualBackward {
  enum Tensors { kInputGradient, kOutputGradient, kSamples, kPositions };
  enum Attributes { kProbability, kKeyLow, kKeyHigh, kFirstColumn };
};

}  // namespace mtl

// Names for the operand indices of the AdamW ops. The contract is in adamw.cc.
#pragma once

namespace mtl {

struct AdamwScalars {
  enum Tensors { kScalars, kGradientNorm, kSquares };
  enum Attributes { kLearningRate, kCorrection1, kCorrection2, kLossScale, kClipGrad };
};
struct Adamw {
  enum Tensors { kParameter, kFirstMoment, kSecondMoment, kModelParameter, kGradient, kScalars, kSegments };
  enum Attributes { kBeta1, kBeta2, kEpsilon, kWeightDecay, kClearGradient };
};

}  // namespace mtl

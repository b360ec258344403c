// Names for the operand indices of the Muon ops. The contract is in muon.cc.
#pragma once

namespace mtl {

struct MuonMomentum {
  enum Tensors { kMomentum, kGradient, kScalars };
  enum Attributes { kDecay, kNesterov };
};
struct MuonNormalize {
  enum Tensors { kOutput, kInput, kSquares };
  enum Attributes { kEpsilon };
};
struct MuonPolynomial {
  enum Tensors { kOutput, kGram, kSquare };
  enum Attributes { kConstant, kLinear, kQuadratic };
};
struct MuonUpdate {
  enum Tensors { kParameter, kModelParameter, kDirection, kScalars };
  enum Attributes { kWeightDecay, kClearDirection };
};

}  // namespace mtl

// Names for the operand indices of the reductions. The contract is in reductions.cc.
#pragma once

namespace mtl {

struct SumRows {
  enum Tensors { kOutput, kInput };
  enum Attributes { kAccumulate };
};
struct SumOfSquares {
  enum Tensors { kOutput, kInput };
  enum Attributes { kAccumulate };
};
struct WeightedSum {
  enum Tensors { kOutput, kValues, kWeights };
};

}  // namespace mtl

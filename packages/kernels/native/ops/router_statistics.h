// Names for the operand indices of router_statistics_forward and router_statistics_backward. The contract is
// in router_statistics.cc.
#pragma once

namespace mtl {

struct RouterStatisticsForward {
  enum Tensors { kCounts, kScoreSums, kSquaredLogSumExp, kEntropy, kLogits, kRowWeights };
  enum Attributes { kTopK, kScoreFunction, kNumSequences };
};
struct RouterStatisticsBackward {
  enum Tensors { kLogitsGradient, kScoreGradients, kSquareGradients, kLogits, kRowWeights };
  enum Attributes { kScoreFunction, kNumSequences };
};

}  // namespace mtl

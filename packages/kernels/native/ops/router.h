// Names for the operand indices of router_forward and router_backward. The contract is in router.cc.
#pragma once

#include "core/op_call.h"

namespace mtl {

enum class ScoreFunction : int { kSoftmax = 0, kSigmoid = 1, kSqrtSoftplus = 2 };
constexpr int kNumScoreFunctions = 3;

struct RouterForward {
  enum Tensors { kProbabilities, kExperts, kLogits, kExpertBias, kChosen };
  enum Attributes { kScoreFunction, kPreSoftmax, kScalingFactor, kNumGroups, kGroupTopK };
};
struct RouterBackward {
  enum Tensors { kLogitsGradient, kProbabilitiesGradient, kLogits, kExperts };
  enum Attributes { kScoreFunction, kPreSoftmax, kScalingFactor };
};

// The sizes that kernels need from a call of router_forward or router_backward.
struct RouterSizes {
  int64_t rows, experts, slots;
};
inline RouterSizes router_sizes(const OpCall& call, int logits, int probabilities) {
  const TensorView &of_logits = call.tensor(logits), &of_slots = call.tensor(probabilities);
  return {of_slots.dim(0), of_logits.dim(-1), of_slots.dim(1)};
}

// Fails with MTL_ARGUMENT unless the attribute's value is a score function.
Status expect_score_function(const OpCall& call, int attribute);

}  // namespace mtl

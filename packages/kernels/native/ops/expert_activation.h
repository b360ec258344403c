// Names for the operand indices of expert_activation_forward and expert_activation_backward. The contract is
// in expert_activation.cc.
#pragma once

#include "core/op_call.h"

namespace mtl {

enum class ExpertActivation : int { kSwiglu = 0, kGeluTanh = 1, kGeluErf = 2, kSquaredRelu = 3, kQuickGeglu = 4 };
constexpr int kNumExpertActivations = 5;

// Returns true if an input row contains F gates followed by F values. Returns false if it contains only F
// values.
constexpr bool is_gated(ExpertActivation kind) {
  return kind == ExpertActivation::kSwiglu || kind == ExpertActivation::kQuickGeglu;
}

struct ExpertActivationForward {
  enum Tensors { kOutput, kInput, kBias, kProbabilities, kOffsets };
  enum Attributes { kActivation, kClamp, kLinearOffset };
};
struct ExpertActivationBackward {
  enum Tensors { kInputGradient, kProbabilitiesGradient, kOutputGradient, kInput, kBias, kProbabilities, kOffsets };
  enum Attributes { kActivation, kClamp, kLinearOffset };
};

}  // namespace mtl

// Runs the fused operations of linear layers (see linear.cc) as separate matmuls and elementwise operations,
// for devices or shapes that do not support the fusion.
#pragma once

#include "core/op_parts.h"

namespace mtl {

struct LinearGeluForward {
  enum Tensors { kOutput, kPreactivation, kInput, kWeight, kBias };
  enum Attributes { kErf };
};
struct LinearGeluBackward {
  enum Tensors { kInputGradient, kOutputGradient, kWeight, kPreactivation };
  enum Attributes { kErf };
};
struct LinearResidualForward {
  enum Tensors { kOutput, kResidual, kInput, kWeight, kBias };
};
struct LinearWeightGradient {
  enum Tensors { kWeightGradient, kBiasGradient, kOutputGradient, kInput };
};

Status linear_gelu_forward_in_parts(const OpCall& call, FindKernel find);
Status linear_gelu_backward_in_parts(const OpCall& call, FindKernel find);
Status linear_residual_forward_in_parts(const OpCall& call, FindKernel find);
Status linear_weight_gradient_in_parts(const OpCall& call, FindKernel find);

}  // namespace mtl

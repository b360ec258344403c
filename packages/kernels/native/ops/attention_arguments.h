// What the arguments of attention and of packed attention have in common: their checks, and how they become a problem.
//
//   A heads (of this process), D head size
//   qkv [..., A, 3, D], output [..., A, D]: the dots are [S, B], or [T] with packed samples
#pragma once

#include "core/validation.h"
#include "ops/attention.h"

namespace mtl {

// Where a call has them.
struct AttentionArguments {
  int qkv;
  int samples;  // optional: global sample numbers
  int scale;    // attribute; dropoutProbability, keyLow, keyHigh and headOffset follow it
};

// A whole number from 0 to below the limit.
bool is_integer_below(double value, double limit);

// The tensor is a floating [..., A, 3, D] of `rank` dimensions.
Status expect_qkv(const OpCall& call, int qkv, int rank);
// The tensor is float32, or float64 where qkv is.
Status expect_statistics_dtype(const OpCall& call, int log_sum_exp, int qkv);
Status expect_scale(const OpCall& call, int scale);
// Scale and dropout, and that dropout has its samples.
Status validate_attention_attributes(const OpCall& call, const AttentionArguments& arguments);

// The outputs and gradients of a forward and of a backward op around what `validate_inputs` checks: qkv, logSumExp, who sees
// whom, and the attributes.
using ValidateAttentionInputs = Status (*)(const OpCall& call, int qkv, int log_sum_exp);
Status validate_attention_forward(const OpCall& call, ValidateAttentionInputs validate_inputs);
Status validate_attention_backward(const OpCall& call, ValidateAttentionInputs validate_inputs);

// Heads, scale and dropout of a validated call; everything else is zero.
AttentionProblem common_attention_problem(const OpCall& call, const AttentionArguments& arguments);

}  // namespace mtl

// Shared by the arguments of the attention ops: their checks, and their conversion to a problem.
//
//   A query heads (of this process) in G groups of R = A / G, D head size
//   qkv [..., G, R + 2, D]: the queries of a group's heads, then its key and its value; output [..., A, D]
//   the dots are [S, B], or [T] with packed samples
#pragma once

#include "core/validation.h"
#include "ops/attention.h"

namespace mtl {

// Query heads of a packed projection.
int64_t num_heads(const TensorView& qkv);

// An integer from 0 to below the limit.
bool is_integer_below(double value, double limit);

// The tensor is a floating-point [..., G, R + 2, D] of `rank` dimensions.
Status expect_qkv(const OpCall& call, int qkv, int rank);
// The tensor is float32, or float64 if qkv is.
Status expect_statistics_dtype(const OpCall& call, int log_sum_exp, int qkv);
// The tensor is [..., A, D] with qkv's dots and dtype.
Status expect_attention_output(const OpCall& call, int output, int qkv);
Status expect_scale(const OpCall& call, int scale);

// The arguments of scale and dropout. Their validation also checks that dropout has its samples.
struct AttentionAttributes {
  int samples;  // tensor
  int scale, dropout_probability, key_low, key_high, head_offset;
};
Status validate_attention_attributes(const OpCall& call, const AttentionAttributes& at, int64_t heads);

template <typename Op>
constexpr AttentionAttributes attributes_of() {
  return {Op::kSamples, Op::kScale, Op::kDropoutProbability, Op::kKeyLow, Op::kKeyHigh, Op::kHeadOffset};
}

// The outputs and gradients of a forward and of a backward op; everything else is checked before.
template <typename Op>
Status validate_attention_forward(const OpCall& call) {
  return expect_attention_output(call, Op::kOutput, Op::kQkv);
}
template <typename Op>
Status validate_attention_backward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_attention_output(call, Op::kOutputGradient, Op::kQkv));
  MTL_RETURN_IF_ERROR(expect_attention_output(call, Op::kOutput, Op::kQkv));
  return expect_like(call, Op::kQkvGradient, Op::kQkv);
}

// Heads and their rows in qkv; everything else is zero.
AttentionProblem projected_problem(const TensorView& qkv);
void set_attention_attributes(AttentionProblem* problem, const OpCall& call, const AttentionAttributes& at);

// Operands, scale and dropout of a validated call of either kind, without lengths and masks.
template <typename Op>
AttentionProblem forward_operands(const OpCall& call) {
  AttentionProblem problem = projected_problem(call.tensor(Op::kQkv));
  problem.output = heads_of(call.tensor(Op::kOutput), problem.groups);
  problem.log_sum_exp = call.tensor(Op::kLogSumExp).data;
  set_attention_attributes(&problem, call, attributes_of<Op>());
  return problem;
}
template <typename Op>
AttentionProblem backward_operands(const OpCall& call) {
  AttentionProblem problem = forward_operands<Op>(call);
  const AttentionProjection gradients = projection_of(call.tensor(Op::kQkvGradient));
  problem.query_gradient = gradients.query;
  problem.key_gradient = gradients.key;
  problem.value_gradient = gradients.value;
  problem.output_gradient = heads_of(call.tensor(Op::kOutputGradient), problem.groups);
  return problem;
}

}  // namespace mtl

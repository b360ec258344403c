// row_gate_forward: output = sigmoid(logit of the row) * input, with sigmoid(x) = 1 / (1 + e^-x)
// row_gate_backward: inputGradient = sigmoid(logit) * outputGradient;
//                    logitsGradient = sigmoid'(logit) * the sum over the row of outputGradient * input
//
//   output, input and their gradients  [..., H]      logits, logitsGradient  [rows] float32 (float64 for
//   float64 inputs)
//
// This is the gate of Qwen2-MoE's shared experts.
#include "ops/row_gate.h"

#include "core/validation.h"

namespace mtl {
namespace {

Status validate(const OpCall& call, int input, int logits) {
  MTL_RETURN_IF_ERROR(expect_floating(call, input));
  MTL_RETURN_IF_ERROR(expect_rank(call, input, 1, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_shape(call, logits, {call.tensor(input).rows()}));
  const bool wide = call.tensor(input).dtype == DType::kFloat64;
  return expect_dtype(call, logits, {wide ? DType::kFloat64 : DType::kFloat32});
}

Status validate_forward(const OpCall& call) {
  using Op = RowGateForward;
  MTL_RETURN_IF_ERROR(validate(call, Op::kInput, Op::kLogits));
  return expect_like(call, Op::kOutput, Op::kInput);
}

Status validate_backward(const OpCall& call) {
  using Op = RowGateBackward;
  MTL_RETURN_IF_ERROR(validate(call, Op::kInput, Op::kLogits));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kInputGradient, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kOutputGradient, Op::kInput));
  return expect_like(call, Op::kLogitsGradient, Op::kLogits);
}

MTL_REGISTER_OP(OpSchema{"row_gate_forward", 1, {"output", "input", "logits"}, {}, validate_forward, nullptr});
MTL_REGISTER_OP(OpSchema{"row_gate_backward",
                         2,
                         {"inputGradient", "logitsGradient", "outputGradient", "input", "logits"},
                         {},
                         validate_backward,
                         nullptr});

}  // namespace
}  // namespace mtl

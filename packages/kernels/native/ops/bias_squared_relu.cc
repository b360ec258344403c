// bias_squared_relu_forward: output = max(input + bias, 0)^2;
// bias_squared_relu_backward: inputGradient = outputGradient * 2 * max(input + bias, 0)
//
//   input, output, gradients  [..., F]   bias? [F]      inputGradient may be outputGradient itself
//
// This is Primer's activation (So et al. 2021). The bias gradient is the column sum of inputGradient (see
// sum_rows).
#include "ops/bias_squared_relu.h"

#include "core/validation.h"

namespace mtl {
namespace {

Status validate(const OpCall& call, int input, int bias) {
  MTL_RETURN_IF_ERROR(expect_floating(call, input));
  MTL_RETURN_IF_ERROR(expect_rank(call, input, 1, kMaxRank));
  if (!call.has(bias)) return ok_status();
  MTL_RETURN_IF_ERROR(expect_shape(call, bias, {call.tensor(input).dim(-1)}));
  return expect_dtype(call, bias, {call.tensor(input).dtype});
}

Status validate_forward(const OpCall& call) {
  using Op = BiasSquaredReluForward;
  MTL_RETURN_IF_ERROR(validate(call, Op::kInput, Op::kBias));
  return expect_like(call, Op::kOutput, Op::kInput);
}

Status validate_backward(const OpCall& call) {
  using Op = BiasSquaredReluBackward;
  MTL_RETURN_IF_ERROR(validate(call, Op::kInput, Op::kBias));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kInputGradient, Op::kInput));
  return expect_like(call, Op::kOutputGradient, Op::kInput);
}

MTL_REGISTER_OP(OpSchema{"bias_squared_relu_forward", 1, {"output", "input", "bias?"}, {}, validate_forward, nullptr});
MTL_REGISTER_OP(OpSchema{"bias_squared_relu_backward",
                         1,
                         {"inputGradient", "outputGradient", "input", "bias?"},
                         {},
                         validate_backward,
                         nullptr});

}  // namespace
}  // namespace mtl

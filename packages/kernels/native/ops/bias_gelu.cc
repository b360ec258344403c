// bias_gelu_forward: output = gelu(input + bias);
// bias_gelu_backward: inputGradient = outputGradient * gelu'(input + bias)
//
//   input, output, gradients  [..., F]   bias? [F]
//   erf = 0: the tanh approximation 0.5 * z * (1 + tanh(sqrt(2/pi) * (z + 0.044715 * z^3)))
//   erf = 1: the exact form 0.5 * z * (1 + erf(z / sqrt(2)))
//
// The bias gradient is the column sum of inputGradient (see sum_rows). Megatron-LM calls this fusion
// "bias + GELU".
#include "ops/bias_gelu.h"

#include "core/validation.h"

namespace mtl {
namespace {

Status validate_bias(const OpCall& call, int bias, int input) {
  if (!call.has(bias)) return ok_status();
  MTL_RETURN_IF_ERROR(expect_shape(call, bias, {call.tensor(input).dim(-1)}));
  return expect_dtype(call, bias, {call.tensor(input).dtype});
}

Status validate_forward(const OpCall& call) {
  using Op = BiasGeluForward;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kInput, 1, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kOutput, Op::kInput));
  return validate_bias(call, Op::kBias, Op::kInput);
}

Status validate_backward(const OpCall& call) {
  using Op = BiasGeluBackward;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kInput, 1, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kInputGradient, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kOutputGradient, Op::kInput));
  return validate_bias(call, Op::kBias, Op::kInput);
}

MTL_REGISTER_OP(OpSchema{"bias_gelu_forward", 1, {"output", "input", "bias?"}, {"erf"}, validate_forward, nullptr});
MTL_REGISTER_OP(OpSchema{"bias_gelu_backward",
                         1,
                         {"inputGradient", "outputGradient", "input", "bias?"},
                         {"erf"},
                         validate_backward,
                         nullptr});

}  // namespace
}  // namespace mtl

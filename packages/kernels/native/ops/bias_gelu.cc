// bias_gelu_forward: output = gelu(input + bias);
// bias_gelu_backward: inputGradient = outputGradient * gelu'(input + bias)
//
//   input, output, gradients  [..., F]   bias? [F]
//   erf = 0: the tanh approximation 0.5 z (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3)));  1: 0.5 z (1 + erf(z / sqrt 2))
//
// The bias gradient is the column sum of inputGradient (sum_rows). Megatron-LM's "bias + GELU" fusion.
#include "core/validation.h"

namespace mtl {
namespace {

enum { kOutput, kInput, kBias };
enum { kInputGradient, kOutputGradient, kBackwardInput, kBackwardBias };

Status validate_bias(const OpCall& call, int bias, int input) {
  if (!call.has(bias)) return ok_status();
  MTL_RETURN_IF_ERROR(expect_shape(call, bias, {call.tensor(input).dim(-1)}));
  return expect_dtype(call, bias, {call.tensor(input).dtype});
}

Status validate_forward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_floating(call, kInput));
  MTL_RETURN_IF_ERROR(expect_rank(call, kInput, 1, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_like(call, kOutput, kInput));
  return validate_bias(call, kBias, kInput);
}

Status validate_backward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_floating(call, kBackwardInput));
  MTL_RETURN_IF_ERROR(expect_rank(call, kBackwardInput, 1, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_like(call, kInputGradient, kBackwardInput));
  MTL_RETURN_IF_ERROR(expect_like(call, kOutputGradient, kBackwardInput));
  return validate_bias(call, kBackwardBias, kBackwardInput);
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

// tanh_forward: output = tanh(input); tanh_backward: inputGradient = outputGradient * (1 - output^2)
//
//   all have the same shape and floating dtype; inputGradient may be outputGradient itself
//
// This is the activation of BERT's pooler (Devlin et al. 2018).
#include "core/validation.h"
#include "ops/tanh.h"

namespace mtl {
namespace {

Status validate_forward(const OpCall& call) {
  using Op = TanhForward;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kInput));
  return expect_like(call, Op::kOutput, Op::kInput);
}

Status validate_backward(const OpCall& call) {
  using Op = TanhBackward;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kOutput));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kInputGradient, Op::kOutput));
  return expect_like(call, Op::kOutputGradient, Op::kOutput);
}

MTL_REGISTER_OP(OpSchema{"tanh_forward", 1, {"output", "input"}, {}, validate_forward, nullptr});
MTL_REGISTER_OP(OpSchema{
    "tanh_backward", 1, {"inputGradient", "outputGradient", "output"}, {}, validate_backward, nullptr});

}  // namespace
}  // namespace mtl

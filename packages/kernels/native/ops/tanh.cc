// tanh_forward: output = tanh(input); tanh_backward: inputGradient = outputGradient * (1 - output^2)
//
//   all of one shape and floating dtype; inputGradient may be the memory of outputGradient
//
// The activation of BERT's pooler (Devlin et al. 2018).
#include "core/validation.h"

namespace mtl {
namespace {

Status validate_forward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_floating(call, 1));
  return expect_like(call, 0, 1);
}

Status validate_backward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_floating(call, 2));
  MTL_RETURN_IF_ERROR(expect_like(call, 0, 2));
  return expect_like(call, 1, 2);
}

MTL_REGISTER_OP(OpSchema{"tanh_forward", 1, {"output", "input"}, {}, validate_forward, nullptr});
MTL_REGISTER_OP(OpSchema{
    "tanh_backward", 1, {"inputGradient", "outputGradient", "output"}, {}, validate_backward, nullptr});

}  // namespace
}  // namespace mtl

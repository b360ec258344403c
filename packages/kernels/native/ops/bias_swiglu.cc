// bias_swiglu_forward: output = silu(gate) * up, with [gate, up] = input + bias and silu(x) = x / (1 + e^-x)
// bias_swiglu_backward: inputGradient = [outputGradient * up * silu'(gate), outputGradient * silu(gate)]
//
//   output, outputGradient  [..., F]      input, inputGradient  [..., 2F]: F gates, then F values  bias? [2F]
//
// The activation of Llama's feed-forward network (Shazeer 2020). The bias gradient is the column sum of
// inputGradient (sum_rows).
#include "ops/bias_swiglu.h"

#include "core/validation.h"

namespace mtl {
namespace {

// Checks `half` [..., F], `whole` [..., 2F] and the bias [2F].
Status validate(const OpCall& call, int half, int whole, int bias) {
  MTL_RETURN_IF_ERROR(expect_floating(call, whole));
  MTL_RETURN_IF_ERROR(expect_rank(call, whole, 1, kMaxRank));
  const TensorView& input = call.tensor(whole);
  MTL_RETURN_IF_ERROR(expect_rank(call, half, input.rank, input.rank));
  MTL_RETURN_IF_ERROR(expect_dtype(call, half, {input.dtype}));
  bool fits = input.dim(-1) == 2 * call.tensor(half).dim(-1);
  for (int dim = 0; dim + 1 < input.rank; ++dim) fits = fits && input.dim(dim) == call.tensor(half).dim(dim);
  if (!fits) {
    return error_status("MTL_SHAPE", "%s: %s has %lld rows of %lld elements and input %lld rows of %lld, expected as many "
                        "rows, of half as many elements", call.op, tensor_name(call, half),
                        static_cast<long long>(call.tensor(half).rows()),
                        static_cast<long long>(call.tensor(half).dim(-1)), static_cast<long long>(input.rows()),
                        static_cast<long long>(input.dim(-1)));
  }
  if (!call.has(bias)) return ok_status();
  MTL_RETURN_IF_ERROR(expect_shape(call, bias, {input.dim(-1)}));
  return expect_dtype(call, bias, {input.dtype});
}

Status validate_forward(const OpCall& call) {
  using Op = BiasSwigluForward;
  return validate(call, Op::kOutput, Op::kInput, Op::kBias);
}

Status validate_backward(const OpCall& call) {
  using Op = BiasSwigluBackward;
  MTL_RETURN_IF_ERROR(validate(call, Op::kOutputGradient, Op::kInput, Op::kBias));
  return expect_like(call, Op::kInputGradient, Op::kInput);
}

MTL_REGISTER_OP(OpSchema{"bias_swiglu_forward", 1, {"output", "input", "bias?"}, {}, validate_forward, nullptr});
MTL_REGISTER_OP(OpSchema{
    "bias_swiglu_backward", 1, {"inputGradient", "outputGradient", "input", "bias?"}, {}, validate_backward, nullptr});

}  // namespace
}  // namespace mtl

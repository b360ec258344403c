// expert_activation_forward: output[r] = act(input[r] + bias[g]) * probabilities[r] for the rows r of group g
// expert_activation_backward: inputGradient, and probabilitiesGradient[r] = sum over F of
//                             act(...) * outputGradient[r]
//
//   output, outputGradient  [..., F] of R rows      input, inputGradient  [..., W] of R rows: W is 2F (F
//   gates, then F values) for gated activations, otherwise F     bias? [G, W] of the input's dtype
//   probabilities?, probabilitiesGradient?  [R] float32 (float64 for float64 inputs)
//   offsets  [G + 1] int32, from 0, ascending, at most R (else MTL_INDEX). Rows from offsets[G] on become
//   zeros.
//   activation: 0 swiglu: silu(gate) * (value + linearOffset);  1 gelu, tanh approximation;  2 gelu, exact;
//               3 squared ReLU;  4 quick geglu: gate * sigmoid(1.702 * gate) * (value + linearOffset)
//   clamp: 0 means none. If it is above 0 (only for gated activations), gates are limited from above, and
//          values on both sides (OpenAI 2025, gpt-oss). A value equal to its limit has the same gradient as
//          without the limit.
//
// Everything is computed in float32 (double for float64 inputs) and rounded once.
#include "ops/expert_activation.h"

#include <cmath>

#include "core/validation.h"

namespace mtl {
namespace {

Status validate_attributes(const OpCall& call, int activation, int clamp, int linear_offset) {
  const double kind = call.attribute(activation), limit = call.attribute(clamp), offset = call.attribute(linear_offset);
  if (!(kind >= 0 && kind < kNumExpertActivations) || std::floor(kind) != kind) {
    return argument_error(call, "activation is %g, expected 0 to %d", kind, kNumExpertActivations - 1);
  }
  if (!(limit >= 0) || !std::isfinite(offset)) {
    return argument_error(call, "clamp is %g and linearOffset %g, expected numbers, clamp not below 0", limit, offset);
  }
  if (is_gated(static_cast<ExpertActivation>(call.integer(activation))) || (limit == 0 && offset == 0)) return ok_status();
  return argument_error(call, "clamp is %g and linearOffset %g, expected 0 of an activation without gates", limit, offset);
}

// Checks that `output` [..., F] and `input` [..., W] have the same number of rows, and checks the other
// operands.
Status validate(const OpCall& call, int output, int input, int bias, int probabilities, int offsets, int activation) {
  MTL_RETURN_IF_ERROR(expect_floating(call, input));
  MTL_RETURN_IF_ERROR(expect_rank(call, input, 2, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_rank(call, output, 2, kMaxRank));
  const TensorView &of_input = call.tensor(input), &of_output = call.tensor(output);
  MTL_RETURN_IF_ERROR(expect_dtype(call, output, {of_input.dtype}));
  const int64_t factor = is_gated(static_cast<ExpertActivation>(call.integer(activation))) ? 2 : 1;
  if (of_input.rows() != of_output.rows() || of_input.dim(-1) != factor * of_output.dim(-1)) {
    return error_status("MTL_SHAPE", "%s: input has %lld rows of %lld elements, expected as many rows as %s of %lld elements",
                        call.op, static_cast<long long>(of_input.rows()), static_cast<long long>(of_input.dim(-1)),
                        tensor_name(call, output), static_cast<long long>(factor * of_output.dim(-1)));
  }
  MTL_RETURN_IF_ERROR(expect_rank(call, offsets, 1, 1));
  MTL_RETURN_IF_ERROR(expect_dtype(call, offsets, {DType::kInt32}));
  if (call.tensor(offsets).size() < 1) return argument_error(call, "offsets has no elements, expected one more than groups");
  if (call.has(bias)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, bias, {call.tensor(offsets).size() - 1, of_input.dim(-1)}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, bias, {of_input.dtype}));
  }
  if (!call.has(probabilities)) return ok_status();
  MTL_RETURN_IF_ERROR(expect_shape(call, probabilities, {of_input.rows()}));
  return expect_dtype(call, probabilities, {of_input.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32});
}

Status validate_forward(const OpCall& call) {
  using Op = ExpertActivationForward;
  MTL_RETURN_IF_ERROR(validate_attributes(call, Op::kActivation, Op::kClamp, Op::kLinearOffset));
  MTL_RETURN_IF_ERROR(validate(call, Op::kOutput, Op::kInput, Op::kBias, Op::kProbabilities, Op::kOffsets, Op::kActivation));
  return expect_separate_output(call, Op::kOutput, {Op::kInput});
}

Status validate_backward(const OpCall& call) {
  using Op = ExpertActivationBackward;
  MTL_RETURN_IF_ERROR(validate_attributes(call, Op::kActivation, Op::kClamp, Op::kLinearOffset));
  MTL_RETURN_IF_ERROR(
      validate(call, Op::kOutputGradient, Op::kInput, Op::kBias, Op::kProbabilities, Op::kOffsets, Op::kActivation));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kInputGradient, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_separate_output(call, Op::kInputGradient, {Op::kOutputGradient}));
  if (!call.has(Op::kProbabilitiesGradient)) return ok_status();
  if (!call.has(Op::kProbabilities)) return argument_error(call, "probabilitiesGradient without probabilities");
  return expect_like(call, Op::kProbabilitiesGradient, Op::kProbabilities);
}

MTL_REGISTER_OP(OpSchema{"expert_activation_forward",
                         1,
                         {"output", "input", "bias?", "probabilities?", "offsets"},
                         {"activation", "clamp", "linearOffset"},
                         validate_forward,
                         nullptr});
MTL_REGISTER_OP(OpSchema{
    "expert_activation_backward",
    2,
    {"inputGradient", "probabilitiesGradient?", "outputGradient", "input", "bias?", "probabilities?", "offsets"},
    {"activation", "clamp", "linearOffset"},
    validate_backward,
    nullptr});

}  // namespace
}  // namespace mtl

// layer_norm_forward: output = (input - mean) * rstd * weight + bias, over the last dimension
// layer_norm_backward: any of the three gradients. An absent gradient is not computed, so that the backward
// pass can be split into separate calls for the input's and the parameters' gradients
//
//   input, output, gradients, addend?  [..., H]      weight, bias  [H]
//   mean, rstd  [rows] float32 (float64 for float64 inputs); rstd = 1 / sqrt(variance + epsilon)
//   inputGradient?  [..., H] = dL/dinput (+ addend: the gradient that reaches the input along the residual
//   path)
//   weightGradient?, biasGradient?  [H] float32 (float64); the op adds to them
#include "ops/layer_norm.h"

#include "core/validation.h"

namespace mtl {
namespace {

DType statistics_dtype(const OpCall& call, int input) {
  return call.tensor(input).dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

Status validate_common(const OpCall& call, int input, int mean, int rstd, int weight) {
  MTL_RETURN_IF_ERROR(expect_floating(call, input));
  MTL_RETURN_IF_ERROR(expect_rank(call, input, 1, kMaxRank));
  for (const int statistic : {mean, rstd}) {
    MTL_RETURN_IF_ERROR(expect_shape(call, statistic, {call.tensor(input).rows()}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, statistic, {statistics_dtype(call, input)}));
  }
  MTL_RETURN_IF_ERROR(expect_shape(call, weight, {call.tensor(input).dim(-1)}));
  return expect_dtype(call, weight, {call.tensor(input).dtype});
}

Status validate_forward(const OpCall& call) {
  using Op = LayerNormForward;
  MTL_RETURN_IF_ERROR(validate_common(call, Op::kInput, Op::kMean, Op::kRstd, Op::kWeight));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kOutput, Op::kInput));
  return expect_like(call, Op::kBias, Op::kWeight);
}

Status validate_backward(const OpCall& call) {
  using Op = LayerNormBackward;
  MTL_RETURN_IF_ERROR(validate_common(call, Op::kInput, Op::kMean, Op::kRstd, Op::kWeight));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kOutputGradient, Op::kInput));
  if (call.has(Op::kInputGradient)) MTL_RETURN_IF_ERROR(expect_like(call, Op::kInputGradient, Op::kInput));
  if (call.has(Op::kAddend)) MTL_RETURN_IF_ERROR(expect_like(call, Op::kAddend, Op::kInput));
  for (const int gradient : {Op::kWeightGradient, Op::kBiasGradient}) {
    if (!call.has(gradient)) continue;
    MTL_RETURN_IF_ERROR(expect_shape(call, gradient, {call.tensor(Op::kInput).dim(-1)}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, gradient, {statistics_dtype(call, Op::kInput)}));
  }
  if (call.has(Op::kWeightGradient) != call.has(Op::kBiasGradient)) {
    return argument_error(call, "weightGradient and biasGradient come together");
  }
  if (!call.has(Op::kInputGradient) && !call.has(Op::kWeightGradient)) {
    return argument_error(call, "neither inputGradient nor weightGradient and biasGradient are given");
  }
  return ok_status();
}

MTL_REGISTER_OP(OpSchema{"layer_norm_forward",
                         3,
                         {"output", "mean", "rstd", "input", "weight", "bias"},
                         {"epsilon"},
                         validate_forward,
                         nullptr});
MTL_REGISTER_OP(OpSchema{"layer_norm_backward",
                         3,
                         {"inputGradient?", "weightGradient?", "biasGradient?", "outputGradient", "input", "mean",
                          "rstd", "weight", "addend?"},
                         {},
                         validate_backward,
                         nullptr});

}  // namespace
}  // namespace mtl

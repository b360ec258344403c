// rms_norm_forward: output = input * rstd * weight, over the last dimension (Zhang and Sennrich 2019)
//   with squares: rows have `width` features, and this tensor contains a part. rstd is computed from
//   squares / width, and the output has this tensor's features
// rms_norm_backward: either gradient or both. An absent gradient is not computed, so that the backward pass
// can be split into separate calls for the input's and the weight's gradient
//
//   input, output, gradients, addend?  [..., H]      weight  [H]
//   rstd  [rows] float32 (float64 for float64 inputs): 1 / sqrt(mean of input^2 + epsilon)
//   inputGradient?  [..., H] = dL/dinput (+ addend: the gradient that reaches the input along the residual
//   path)
//   weightGradient?  [H] float32 (float64); the op adds to it
//   squares?, products?  [rows] float32 (float64): the sums over whole rows of input^2, and of
//                        outputGradient * weight * input (the sum of row_products over all parts)
//   width: the number of features in a whole row; H without squares and products
//
// Tensors [..., H] may be strided views whose last dimension is contiguous: the queries and keys in a packed
// projection are normalized without a copy (in this case, H is the head size).
#include "ops/rms_norm.h"

#include "core/validation.h"

namespace mtl {
namespace {

DType statistics_dtype(const OpCall& call, int input) {
  return call.tensor(input).dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

Status validate_common(const OpCall& call, int input, int rstd, int weight) {
  MTL_RETURN_IF_ERROR(expect_floating(call, input));
  MTL_RETURN_IF_ERROR(expect_rank(call, input, 1, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_whole_rows(call, input));
  MTL_RETURN_IF_ERROR(expect_shape(call, rstd, {call.tensor(input).rows()}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, rstd, {statistics_dtype(call, input)}));
  MTL_RETURN_IF_ERROR(expect_shape(call, weight, {call.tensor(input).dim(-1)}));
  return expect_dtype(call, weight, {call.tensor(input).dtype});
}

// Checks `sums`, the sums over complete rows of `width` features. With sums, `width` must be at least the
// number of features in the input; without sums, it must be exactly this number.
Status expect_sums(const OpCall& call, int sums, int input, int width) {
  const double features = call.attribute(width), own = static_cast<double>(call.tensor(input).dim(-1));
  if (call.has(sums) ? features < own : features != own) return argument_error(call, "width is not that of whole rows");
  if (!call.has(sums)) return ok_status();
  MTL_RETURN_IF_ERROR(expect_shape(call, sums, {call.tensor(input).rows()}));
  return expect_dtype(call, sums, {statistics_dtype(call, input)});
}

Status expect_rows_like(const OpCall& call, int tensor, int input) {
  MTL_RETURN_IF_ERROR(expect_like(call, tensor, input));
  return expect_whole_rows(call, tensor);
}

Status validate_forward(const OpCall& call) {
  using Op = RmsNormForward;
  MTL_RETURN_IF_ERROR(validate_common(call, Op::kInput, Op::kRstd, Op::kWeight));
  MTL_RETURN_IF_ERROR(expect_sums(call, Op::kSquares, Op::kInput, Op::kWidth));
  return expect_rows_like(call, Op::kOutput, Op::kInput);
}

Status validate_backward(const OpCall& call) {
  using Op = RmsNormBackward;
  MTL_RETURN_IF_ERROR(validate_common(call, Op::kInput, Op::kRstd, Op::kWeight));
  if (call.has(Op::kInputGradient)) MTL_RETURN_IF_ERROR(expect_sums(call, Op::kProducts, Op::kInput, Op::kWidth));
  MTL_RETURN_IF_ERROR(expect_rows_like(call, Op::kOutputGradient, Op::kInput));
  if (call.has(Op::kInputGradient)) MTL_RETURN_IF_ERROR(expect_rows_like(call, Op::kInputGradient, Op::kInput));
  if (call.has(Op::kAddend)) MTL_RETURN_IF_ERROR(expect_rows_like(call, Op::kAddend, Op::kInput));
  if (call.has(Op::kWeightGradient)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kWeightGradient, {call.tensor(Op::kInput).dim(-1)}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kWeightGradient, {statistics_dtype(call, Op::kInput)}));
  }
  if (!call.has(Op::kInputGradient) && !call.has(Op::kWeightGradient)) {
    return argument_error(call, "neither inputGradient nor weightGradient is given");
  }
  return ok_status();
}

MTL_REGISTER_OP(OpSchema{"rms_norm_forward",
                         2,
                         {"output", "rstd", "input", "weight", "squares?"},
                         {"epsilon", "width"},
                         validate_forward,
                         nullptr,
                         strided_tensors(RmsNormForward::kOutput, RmsNormForward::kInput)});
MTL_REGISTER_OP(OpSchema{"rms_norm_backward",
                         2,
                         {"inputGradient?", "weightGradient?", "outputGradient", "input", "rstd", "weight", "addend?",
                          "products?"},
                         {"width"},
                         validate_backward,
                         nullptr,
                         strided_tensors(RmsNormBackward::kInputGradient, RmsNormBackward::kOutputGradient,
                                         RmsNormBackward::kInput, RmsNormBackward::kAddend)});

}  // namespace
}  // namespace mtl

// bias_dropout_residual_forward: output = residual + dropout(input + bias)
// bias_dropout_residual_backward: inputGradient = the dropout mask applied to outputGradient (the residual's
// gradient is outputGradient itself; the bias's gradient is the column sum of inputGradient)
//
//   input, output, residual?, gradients  [S, B, H]    bias? [H]
//   samples? int64 [B]: global sample indices, required if the dropout probability is above 0. An element's
//   mask depends only on its sample, position and column (core/philox.h); the position is its index in S.
//   If positions? int32 [S, B] is given, every row has its own coordinates: positions and samples are [S, B].
//   Column 0 of the tensors is column firstColumn of the mask: a slice of the features has the same mask as
//   in the whole tensor.
#include "core/validation.h"
#include "ops/bias_dropout_residual.h"

namespace mtl {
namespace {

Status validate_mask(const OpCall& call, int activations, int samples) {
  using Op = BiasDropoutResidualForward;
  const double probability = call.attribute(Op::kProbability);
  if (!(probability >= 0.0 && probability < 1.0)) {
    return argument_error(call, "probability is %g, expected at least 0 and below 1", probability);
  }
  if (call.integer(Op::kFirstColumn) < 0) return argument_error(call, "firstColumn is negative, expected 0 or more");
  if (probability == 0.0 && !call.has(samples)) return ok_status();
  const int positions = samples + 1;
  if (call.has(positions)) {
    const TensorView& tensor = call.tensor(activations);
    MTL_RETURN_IF_ERROR(expect_shape(call, positions, {tensor.dim(0), tensor.dim(1)}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, positions, {DType::kInt32}));
    MTL_RETURN_IF_ERROR(expect_shape(call, samples, {tensor.dim(0), tensor.dim(1)}));
    return expect_dtype(call, samples, {DType::kInt64});
  }
  MTL_RETURN_IF_ERROR(expect_shape(call, samples, {call.tensor(activations).dim(1)}));
  return expect_dtype(call, samples, {DType::kInt64});
}

Status validate_forward(const OpCall& call) {
  using Op = BiasDropoutResidualForward;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kInput, 3, 3));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kOutput, Op::kInput));
  if (call.has(Op::kBias)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kBias, {call.tensor(Op::kInput).dim(-1)}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kBias, {call.tensor(Op::kInput).dtype}));
  }
  if (call.has(Op::kResidual)) MTL_RETURN_IF_ERROR(expect_like(call, Op::kResidual, Op::kInput));
  return validate_mask(call, Op::kInput, Op::kSamples);
}

Status validate_backward(const OpCall& call) {
  using Op = BiasDropoutResidualBackward;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kOutputGradient));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kOutputGradient, 3, 3));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kInputGradient, Op::kOutputGradient));
  return validate_mask(call, Op::kOutputGradient, Op::kSamples);
}

MTL_REGISTER_OP(OpSchema{"bias_dropout_residual_forward",
                         1,
                         {"output", "input", "bias?", "residual?", "samples?", "positions?"},
                         {"probability", "keyLow", "keyHigh", "firstColumn"},
                         validate_forward,
                         nullptr});
MTL_REGISTER_OP(OpSchema{"bias_dropout_residual_backward",
                         1,
                         {"inputGradient", "outputGradient", "samples?", "positions?"},
                         {"probability", "keyLow", "keyHigh", "firstColumn"},
                         validate_backward,
                         nullptr});

}  // namespace
}  // namespace mtl

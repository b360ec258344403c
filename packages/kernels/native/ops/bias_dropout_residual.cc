// bias_dropout_residual_forward: output = residual + dropout(input + bias); backward: inputGradient = the
// mask applied to outputGradient (the residual's gradient is outputGradient itself, the bias's the column sum
// of inputGradient)
//
//   input, output, residual?, gradients  [S, B, H]    bias? [H]
//   samples? int64 [B]: global sample numbers, needed with a dropout probability above 0: the mask of an
//   element depends on its sample, position and column only (core/philox.h), sequenceOffset being the global
//   position of row 0. With positions? int32 [S, B] every row has its own coordinates: positions and then
//   samples are [S, B], and sequenceOffset has no meaning.
#include "core/validation.h"

namespace mtl {
namespace {

Status validate_mask(const OpCall& call, int activations, int samples) {
  const double probability = call.attribute(0);
  if (!(probability >= 0.0 && probability < 1.0)) {
    return argument_error(call, "dropout probability %g, expected at least 0 and below 1", probability);
  }
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
  MTL_RETURN_IF_ERROR(expect_floating(call, 1));
  MTL_RETURN_IF_ERROR(expect_rank(call, 1, 3, 3));
  MTL_RETURN_IF_ERROR(expect_like(call, 0, 1));
  if (call.has(2)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, 2, {call.tensor(1).dim(-1)}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, 2, {call.tensor(1).dtype}));
  }
  if (call.has(3)) MTL_RETURN_IF_ERROR(expect_like(call, 3, 1));
  return validate_mask(call, 1, 4);
}

Status validate_backward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_floating(call, 1));
  MTL_RETURN_IF_ERROR(expect_rank(call, 1, 3, 3));
  MTL_RETURN_IF_ERROR(expect_like(call, 0, 1));
  return validate_mask(call, 1, 2);
}

MTL_REGISTER_OP(OpSchema{"bias_dropout_residual_forward",
                         1,
                         {"output", "input", "bias?", "residual?", "samples?", "positions?"},
                         {"probability", "keyLow", "keyHigh", "sequenceOffset"},
                         validate_forward,
                         nullptr});
MTL_REGISTER_OP(OpSchema{"bias_dropout_residual_backward",
                         1,
                         {"inputGradient", "outputGradient", "samples?", "positions?"},
                         {"probability", "keyLow", "keyHigh", "sequenceOffset"},
                         validate_backward,
                         nullptr});

}  // namespace
}  // namespace mtl

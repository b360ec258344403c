// Matmuls of a linear layer together with operations before or after them, for devices that fuse both.
//
// linear_gelu_forward:     preactivation = input @ weight^T + bias;  output = gelu(preactivation)
// linear_gelu_backward:    inputGradient = (outputGradient @ weight) * gelu'(preactivation)
// linear_residual_forward: output = residual + input @ weight^T + bias
// linear_weight_gradient:  weightGradient += outputGradient^T @ input;
//                          biasGradient += column sums of outputGradient
//
//   forward   output, preactivation [..., F], input [..., H], weight [F, H], bias [F]
//   backward  inputGradient, preactivation [..., F]; outputGradient [..., H] and weight [H, F] of the layer
//             after the GELU
//   residual  output [S, B, O], which shares no memory with the inputs; residual [S, B, O], input [S, B, I],
//             weight [O, I], bias? [O]
//   gradients weightGradient [O, I] and biasGradient [O] float32 (float64 for float64 inputs),
//             outputGradient [..., O], input [..., I]; the sums are over all leading dimensions
//   erf = 0: GELU's tanh approximation; 1: exact (see bias_gelu)
#include "ops/linear.h"

#include <string>

#include "core/validation.h"

namespace mtl {
namespace {

Status expect_matrix(const OpCall& call, int tensor, int64_t rows, int64_t columns) {
  return expect_shape(call, tensor, {rows, columns});
}

Status expect_rows(const OpCall& call, int tensor, int other) {
  MTL_RETURN_IF_ERROR(expect_rank(call, tensor, 2, kMaxRank));
  if (call.tensor(tensor).rows() == call.tensor(other).rows()) return ok_status();
  const std::string name = tensor_name(call, tensor);
  return error_status("MTL_SHAPE", "%s: %s has %lld rows, expected as many as %s: %lld", call.op, name.c_str(),
                      static_cast<long long>(call.tensor(tensor).rows()), tensor_name(call, other),
                      static_cast<long long>(call.tensor(other).rows()));
}

Status validate_forward(const OpCall& call) {
  using Op = LinearGeluForward;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_rows(call, Op::kOutput, Op::kInput));
  const int64_t outputs = call.tensor(Op::kOutput).dim(-1);
  for (const int tensor : {Op::kOutput, Op::kWeight, Op::kBias}) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {call.tensor(Op::kInput).dtype}));
  }
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kPreactivation, Op::kOutput));
  MTL_RETURN_IF_ERROR(expect_matrix(call, Op::kWeight, outputs, call.tensor(Op::kInput).dim(-1)));
  return expect_shape(call, Op::kBias, {outputs});
}

Status validate_backward(const OpCall& call) {
  using Op = LinearGeluBackward;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kOutputGradient));
  MTL_RETURN_IF_ERROR(expect_rows(call, Op::kInputGradient, Op::kOutputGradient));
  for (const int tensor : {Op::kInputGradient, Op::kWeight}) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {call.tensor(Op::kOutputGradient).dtype}));
  }
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kPreactivation, Op::kInputGradient));
  return expect_matrix(call, Op::kWeight, call.tensor(Op::kOutputGradient).dim(-1),
                       call.tensor(Op::kInputGradient).dim(-1));
}

Status validate_residual(const OpCall& call) {
  using Op = LinearResidualForward;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kOutput, 3, 3));
  MTL_RETURN_IF_ERROR(expect_rows(call, Op::kOutput, Op::kInput));
  for (const int tensor : {Op::kOutput, Op::kWeight}) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {call.tensor(Op::kInput).dtype}));
  }
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kResidual, Op::kOutput));
  const int64_t outputs = call.tensor(Op::kOutput).dim(-1);
  MTL_RETURN_IF_ERROR(expect_matrix(call, Op::kWeight, outputs, call.tensor(Op::kInput).dim(-1)));
  if (call.has(Op::kBias)) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kBias, {call.tensor(Op::kInput).dtype}));
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kBias, {outputs}));
  }
  // without the fused kernel, a device writes the output before it reads the residual
  return expect_separate_output(call, Op::kOutput, {Op::kResidual, Op::kInput, Op::kWeight, Op::kBias});
}

Status validate_weight_gradient(const OpCall& call) {
  using Op = LinearWeightGradient;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kOutputGradient));
  MTL_RETURN_IF_ERROR(expect_rows(call, Op::kInput, Op::kOutputGradient));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kInput, {call.tensor(Op::kOutputGradient).dtype}));
  const bool wide = call.tensor(Op::kInput).dtype == DType::kFloat64;
  for (const int tensor : {Op::kWeightGradient, Op::kBiasGradient}) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {wide ? DType::kFloat64 : DType::kFloat32}));
  }
  const int64_t outputs = call.tensor(Op::kOutputGradient).dim(-1);
  MTL_RETURN_IF_ERROR(expect_matrix(call, Op::kWeightGradient, outputs, call.tensor(Op::kInput).dim(-1)));
  return expect_shape(call, Op::kBiasGradient, {outputs});
}

// Returns the FLOPs of a linear layer's matmul: 2 * rows * O * I. `rows` and `weight` are argument indices of
// tensors.
double flops(const OpCall& call, int rows, int weight) {
  return 2.0 * static_cast<double>(call.tensor(rows).rows()) * static_cast<double>(call.tensor(weight).size());
}

double forward_flops(const OpCall& call) { return flops(call, LinearGeluForward::kInput, LinearGeluForward::kWeight); }
double backward_flops(const OpCall& call) {
  return flops(call, LinearGeluBackward::kOutputGradient, LinearGeluBackward::kWeight);
}
double residual_flops(const OpCall& call) {
  return flops(call, LinearResidualForward::kInput, LinearResidualForward::kWeight);
}
double weight_gradient_flops(const OpCall& call) {
  return flops(call, LinearWeightGradient::kInput, LinearWeightGradient::kWeightGradient);
}

MTL_REGISTER_OP(OpSchema{"linear_gelu_forward",
                         2,
                         {"output", "preactivation", "input", "weight", "bias"},
                         {"erf"},
                         validate_forward,
                         forward_flops});
MTL_REGISTER_OP(OpSchema{"linear_gelu_backward",
                         1,
                         {"inputGradient", "outputGradient", "weight", "preactivation"},
                         {"erf"},
                         validate_backward,
                         backward_flops});
MTL_REGISTER_OP(OpSchema{"linear_residual_forward",
                         1,
                         {"output", "residual", "input", "weight", "bias?"},
                         {},
                         validate_residual,
                         residual_flops});
MTL_REGISTER_OP(OpSchema{"linear_weight_gradient",
                         2,
                         {"weightGradient", "biasGradient", "outputGradient", "input"},
                         {},
                         validate_weight_gradient,
                         weight_gradient_flops});

}  // namespace

Status linear_gelu_forward_in_parts(const OpCall& call, FindKernel find) {
  using Op = LinearGeluForward;
  MTL_RETURN_IF_ERROR(run_part(
      call, find, {"matmul", {Op::kPreactivation, Op::kInput, Op::kWeight, Op::kBias}, {0.0, 1.0, 0.0}}));
  return run_part(call, find,
                  {"bias_gelu_forward", {Op::kOutput, Op::kPreactivation, kLeftOut}, {call.attribute(Op::kErf)}});
}

Status linear_gelu_backward_in_parts(const OpCall& call, FindKernel find) {
  using Op = LinearGeluBackward;
  MTL_RETURN_IF_ERROR(run_part(
      call, find, {"matmul", {Op::kInputGradient, Op::kOutputGradient, Op::kWeight, kLeftOut}, {0.0, 0.0, 0.0}}));
  return run_part(call, find,
                  {"bias_gelu_backward",
                   {Op::kInputGradient, Op::kInputGradient, Op::kPreactivation, kLeftOut},
                   {call.attribute(Op::kErf)}});
}

Status linear_residual_forward_in_parts(const OpCall& call, FindKernel find) {
  using Op = LinearResidualForward;
  MTL_RETURN_IF_ERROR(
      run_part(call, find, {"matmul", {Op::kOutput, Op::kInput, Op::kWeight, kLeftOut}, {0.0, 1.0, 0.0}}));
  return run_part(call, find,
                  {"bias_dropout_residual_forward",
                   {Op::kOutput, Op::kOutput, Op::kBias, Op::kResidual, kLeftOut, kLeftOut},
                   {0.0, 0.0, 0.0, 0.0}});
}

Status linear_weight_gradient_in_parts(const OpCall& call, FindKernel find) {
  using Op = LinearWeightGradient;
  MTL_RETURN_IF_ERROR(run_part(
      call, find, {"matmul", {Op::kWeightGradient, Op::kOutputGradient, Op::kInput, kLeftOut}, {1.0, 0.0, 1.0}}));
  return run_part(call, find, {"sum_rows", {Op::kBiasGradient, Op::kOutputGradient}, {1.0}});
}

}  // namespace mtl

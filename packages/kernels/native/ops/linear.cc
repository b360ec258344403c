// Matmuls of a linear layer with what comes before or after them, for devices that fuse both.
//
// linear_gelu_forward:    preactivation = input weight^T + bias;  output = gelu(preactivation)
// linear_gelu_backward:   inputGradient = (outputGradient weight) * gelu'(preactivation)
// linear_weight_gradient: weightGradient += outputGradient^T input;  biasGradient += column sums of outputGradient
//
//   forward   output, preactivation [..., F], input [..., H], weight [F, H], bias [F]
//   backward  inputGradient, preactivation [..., F], outputGradient [..., H], weight [H, F]: of the layer behind the GELU
//   gradients weightGradient [O, I] and biasGradient [O] float32 (float64 over float64),
//             outputGradient [..., O], input [..., I]; all leading dimensions are summed over
//   erf = 0: GELU's tanh approximation; 1: exact (see bias_gelu)
#include "ops/linear.h"

#include "core/validation.h"

namespace mtl {
namespace {

Status expect_matrix(const OpCall& call, int tensor, int64_t rows, int64_t columns) {
  return expect_shape(call, tensor, {rows, columns});
}

Status expect_rows(const OpCall& call, int tensor, int other) {
  MTL_RETURN_IF_ERROR(expect_rank(call, tensor, 2, kMaxRank));
  if (call.tensor(tensor).rows() == call.tensor(other).rows()) return ok_status();
  return error_status("MTL_SHAPE", "%s: tensors of %lld and %lld rows", call.op,
                      static_cast<long long>(call.tensor(tensor).rows()),
                      static_cast<long long>(call.tensor(other).rows()));
}

Status validate_forward(const OpCall& call) {
  enum { kOutput, kPreactivation, kInput, kWeight, kBias };
  MTL_RETURN_IF_ERROR(expect_floating(call, kInput));
  MTL_RETURN_IF_ERROR(expect_rows(call, kOutput, kInput));
  const int64_t outputs = call.tensor(kOutput).dim(-1);
  for (const int tensor : {kOutput, kWeight, kBias}) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {call.tensor(kInput).dtype}));
  }
  MTL_RETURN_IF_ERROR(expect_like(call, kPreactivation, kOutput));
  MTL_RETURN_IF_ERROR(expect_matrix(call, kWeight, outputs, call.tensor(kInput).dim(-1)));
  return expect_shape(call, kBias, {outputs});
}

Status validate_backward(const OpCall& call) {
  enum { kInputGradient, kOutputGradient, kWeight, kPreactivation };
  MTL_RETURN_IF_ERROR(expect_floating(call, kOutputGradient));
  MTL_RETURN_IF_ERROR(expect_rows(call, kInputGradient, kOutputGradient));
  for (const int tensor : {kInputGradient, kWeight}) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {call.tensor(kOutputGradient).dtype}));
  }
  MTL_RETURN_IF_ERROR(expect_like(call, kPreactivation, kInputGradient));
  return expect_matrix(call, kWeight, call.tensor(kOutputGradient).dim(-1), call.tensor(kInputGradient).dim(-1));
}

Status validate_weight_gradient(const OpCall& call) {
  enum { kWeightGradient, kBiasGradient, kOutputGradient, kInput };
  MTL_RETURN_IF_ERROR(expect_floating(call, kOutputGradient));
  MTL_RETURN_IF_ERROR(expect_rows(call, kInput, kOutputGradient));
  MTL_RETURN_IF_ERROR(expect_dtype(call, kInput, {call.tensor(kOutputGradient).dtype}));
  const bool wide = call.tensor(kInput).dtype == DType::kFloat64;
  for (const int tensor : {kWeightGradient, kBiasGradient}) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {wide ? DType::kFloat64 : DType::kFloat32}));
  }
  const int64_t outputs = call.tensor(kOutputGradient).dim(-1);
  MTL_RETURN_IF_ERROR(expect_matrix(call, kWeightGradient, outputs, call.tensor(kInput).dim(-1)));
  return expect_shape(call, kBiasGradient, {outputs});
}

// 2 rows O I, as for any matmul of a linear layer; the tensor named is the one with `rows` rows.
double flops(const OpCall& call, int rows, int weight) {
  return 2.0 * static_cast<double>(call.tensor(rows).rows()) * static_cast<double>(call.tensor(weight).size());
}

MTL_REGISTER_OP(OpSchema{"linear_gelu_forward",
                         2,
                         {"output", "preactivation", "input", "weight", "bias"},
                         {"erf"},
                         validate_forward,
                         [](const OpCall& call) { return flops(call, 2, 3); }});
MTL_REGISTER_OP(OpSchema{"linear_gelu_backward",
                         1,
                         {"inputGradient", "outputGradient", "weight", "preactivation"},
                         {"erf"},
                         validate_backward,
                         [](const OpCall& call) { return flops(call, 1, 2); }});
MTL_REGISTER_OP(OpSchema{"linear_weight_gradient",
                         2,
                         {"weightGradient", "biasGradient", "outputGradient", "input"},
                         {},
                         validate_weight_gradient,
                         [](const OpCall& call) { return flops(call, 3, 0); }});

}  // namespace

Status linear_gelu_forward_in_parts(const OpCall& call, FindKernel find) {
  MTL_RETURN_IF_ERROR(run_part(call, find, {"matmul", {1, 2, 3, 4}, {0.0, 1.0, 0.0}}));
  return run_part(call, find, {"bias_gelu_forward", {0, 1, kLeftOut}, {call.attribute(0)}});
}

Status linear_gelu_backward_in_parts(const OpCall& call, FindKernel find) {
  MTL_RETURN_IF_ERROR(run_part(call, find, {"matmul", {0, 1, 2, kLeftOut}, {0.0, 0.0, 0.0}}));
  return run_part(call, find, {"bias_gelu_backward", {0, 0, 3, kLeftOut}, {call.attribute(0)}});
}

Status linear_weight_gradient_in_parts(const OpCall& call, FindKernel find) {
  MTL_RETURN_IF_ERROR(run_part(call, find, {"matmul", {0, 2, 3, kLeftOut}, {1.0, 0.0, 1.0}}));
  return run_part(call, find, {"sum_rows", {1, 2}, {1.0}});
}

}  // namespace mtl

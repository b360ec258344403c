// grouped_sum_rows:      output[g] = sum over the rows r of group g of weights[r] * input[r] (+ output[g]):
// bias gradients
// grouped_bias_forward:  output[r] = input[r] + probabilities[r] * bias[g] for the rows r of group g
// grouped_bias_backward: probabilitiesGradient[r] = sum over N of outputGradient[r] * bias[g]
//
//   grouped_sum_rows  output [G, N] float32 (float64 for float64 inputs). For a group without rows, it
//   becomes 0, or with accumulate, stays unchanged
//   input, output, outputGradient [..., N] of R rows      bias [G, N] of the input's dtype
//   weights?, probabilities?, probabilitiesGradient [R] float32 (float64 for float64 inputs); default 1
//   offsets  [G + 1] int32, from 0, ascending, at most R (else MTL_INDEX). Rows from offsets[G] on become
//   zeros.
//
// Sums are computed in float32, in an order that does not depend on the number of threads. If an activation
// was multiplied by the probabilities, the bias of the following matmul must be multiplied by them, too.
#include "core/validation.h"
#include "ops/grouped_bias.h"

namespace mtl {
namespace {

DType wide_dtype(const OpCall& call, int input) {
  return call.tensor(input).dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

Status expect_input(const OpCall& call, int input) {
  MTL_RETURN_IF_ERROR(expect_floating(call, input));
  return expect_rank(call, input, 2, kMaxRank);
}

Status expect_of_rows(const OpCall& call, int tensor, int input) {
  MTL_RETURN_IF_ERROR(expect_shape(call, tensor, {call.tensor(input).rows()}));
  return expect_dtype(call, tensor, {wide_dtype(call, input)});
}

// Checks a matrix that has one row per group, and the groups' offsets.
Status expect_of_groups(const OpCall& call, int tensor, int offsets, int input, DType dtype) {
  MTL_RETURN_IF_ERROR(expect_rank(call, tensor, 2, 2));
  MTL_RETURN_IF_ERROR(expect_shape(call, tensor, {call.tensor(tensor).dim(0), call.tensor(input).dim(-1)}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {dtype}));
  MTL_RETURN_IF_ERROR(expect_shape(call, offsets, {call.tensor(tensor).dim(0) + 1}));
  return expect_dtype(call, offsets, {DType::kInt32});
}

Status validate_sum_rows(const OpCall& call) {
  using Op = GroupedSumRows;
  MTL_RETURN_IF_ERROR(expect_input(call, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_of_groups(call, Op::kOutput, Op::kOffsets, Op::kInput, wide_dtype(call, Op::kInput)));
  return call.has(Op::kWeights) ? expect_of_rows(call, Op::kWeights, Op::kInput) : ok_status();
}

Status validate_forward(const OpCall& call) {
  using Op = GroupedBiasForward;
  MTL_RETURN_IF_ERROR(expect_input(call, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kOutput, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_of_groups(call, Op::kBias, Op::kOffsets, Op::kInput, call.tensor(Op::kInput).dtype));
  return call.has(Op::kProbabilities) ? expect_of_rows(call, Op::kProbabilities, Op::kInput) : ok_status();
}

Status validate_backward(const OpCall& call) {
  using Op = GroupedBiasBackward;
  MTL_RETURN_IF_ERROR(expect_input(call, Op::kOutputGradient));
  MTL_RETURN_IF_ERROR(expect_of_rows(call, Op::kProbabilitiesGradient, Op::kOutputGradient));
  return expect_of_groups(call, Op::kBias, Op::kOffsets, Op::kOutputGradient, call.tensor(Op::kOutputGradient).dtype);
}

MTL_REGISTER_OP(OpSchema{
    "grouped_sum_rows", 1, {"output", "input", "weights?", "offsets"}, {"accumulate"}, validate_sum_rows, nullptr});
MTL_REGISTER_OP(OpSchema{
    "grouped_bias_forward", 1, {"output", "input", "bias", "probabilities?", "offsets"}, {}, validate_forward, nullptr});
MTL_REGISTER_OP(OpSchema{"grouped_bias_backward",
                         1,
                         {"probabilitiesGradient", "outputGradient", "bias", "offsets"},
                         {},
                         validate_backward,
                         nullptr});

}  // namespace
}  // namespace mtl

// grouped_matmul: output[r] = input[r] @ op(weights[g]) for the rows r of group g
// grouped_weight_gradient: weightGradient[g] = sum over the rows r of group g of
//                          outputGradient[r]^T @ input[r] (+ weightGradient[g])
//
//   output, outputGradient  [..., N] of R rows, of the input's dtype      input  [..., K] of R rows
//   weights  [G, N, K] when transposeWeights, else [G, K, N], of the input's dtype
//   weightGradient  [G, N, K] float32 (float64 for float64 inputs). For a group without rows, it becomes 0,
//            or with accumulate, stays unchanged
//   offsets  [G + 1] int32, from 0, ascending, at most R (else MTL_INDEX): the rows of group g are offsets[g]
//            to offsets[g + 1], exclusive. From offsets[G] on, rows of the output become zeros, and rows of
//            the inputs are not read.
//
// An element's sum depends only on the inner dimension: it has the same bits for any number of rows before
// and after it, and any number of threads. FLOPs count all R rows: if the offsets are in a GPU's memory, the
// host does not know how many rows are in groups.
#include "ops/grouped_matmul.h"

#include "core/validation.h"

namespace mtl {

namespace {

// Checks that two tensors have the same number of rows and the same dtype.
Status expect_rows(const OpCall& call, int tensor, int input) {
  MTL_RETURN_IF_ERROR(expect_floating(call, input));
  MTL_RETURN_IF_ERROR(expect_rank(call, input, 2, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_rank(call, tensor, 2, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {call.tensor(input).dtype}));
  const int64_t actual = call.tensor(tensor).rows(), expected = call.tensor(input).rows();
  if (actual == expected) return ok_status();
  return error_status("MTL_SHAPE", "%s: %s has %lld rows, expected as many as the input: %lld", call.op,
                      tensor_name(call, tensor), static_cast<long long>(actual), static_cast<long long>(expected));
}

Status expect_group_offsets(const OpCall& call, int offsets, int of_groups) {
  MTL_RETURN_IF_ERROR(expect_shape(call, offsets, {call.tensor(of_groups).dim(0) + 1}));
  return expect_dtype(call, offsets, {DType::kInt32});
}

Status validate_matmul(const OpCall& call) {
  using Op = GroupedMatmul;
  MTL_RETURN_IF_ERROR(expect_rows(call, Op::kOutput, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kWeights, 3, 3));
  const GroupedSizes sizes = grouped_matmul_sizes(call);
  const bool transposed = call.flag(Op::kTransposeWeights);
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kWeights, {sizes.groups, transposed ? sizes.outputs : sizes.inputs,
                                                        transposed ? sizes.inputs : sizes.outputs}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kWeights, {call.tensor(Op::kInput).dtype}));
  MTL_RETURN_IF_ERROR(expect_group_offsets(call, Op::kOffsets, Op::kWeights));
  return expect_separate_output(call, Op::kOutput, {Op::kInput, Op::kWeights});
}

Status validate_gradient(const OpCall& call) {
  using Op = GroupedWeightGradient;
  MTL_RETURN_IF_ERROR(expect_rows(call, Op::kOutputGradient, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kWeightGradient, 3, 3));
  const DType dtype = call.tensor(Op::kInput).dtype;
  MTL_RETURN_IF_ERROR(
      expect_dtype(call, Op::kWeightGradient, {dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32}));
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kWeightGradient,
                                   {call.tensor(Op::kWeightGradient).dim(0), call.tensor(Op::kOutputGradient).dim(-1),
                                    call.tensor(Op::kInput).dim(-1)}));
  MTL_RETURN_IF_ERROR(expect_group_offsets(call, Op::kOffsets, Op::kWeightGradient));
  return expect_separate_output(call, Op::kWeightGradient, {Op::kOutputGradient, Op::kInput});
}

double flops_of(const GroupedSizes& sizes) {
  return 2.0 * static_cast<double>(sizes.rows) * static_cast<double>(sizes.outputs) * static_cast<double>(sizes.inputs);
}

double matmul_flops(const OpCall& call) { return flops_of(grouped_matmul_sizes(call)); }
double gradient_flops(const OpCall& call) { return flops_of(grouped_weight_gradient_sizes(call)); }

MTL_REGISTER_OP(OpSchema{"grouped_matmul",
                         1,
                         {"output", "input", "weights", "offsets"},
                         {"transposeWeights"},
                         validate_matmul,
                         matmul_flops});
MTL_REGISTER_OP(OpSchema{"grouped_weight_gradient",
                         1,
                         {"weightGradient", "outputGradient", "input", "offsets"},
                         {"accumulate"},
                         validate_gradient,
                         gradient_flops});

}  // namespace
}  // namespace mtl

// attention_row_sums: rowSums = the sum over the head size of output times outputGradient, which the
// softmax's gradient subtracts (Dao 2023, "FlashAttention-2", algorithm 2, line 4). It is a separate op
// because attention_backward needs only these few values from the output: processes that compute with each
// other's rows send the sums instead of the output, and calls over parts of the keys share the sums.
//
//   S positions, B micro-batch size, A heads, D head size of values, T rows of packed samples
//   output          [S, B, A, D] or [T, A, D], from attention_forward; float32 or the dtype of outputGradient
//   outputGradient  the same shape as output
//   rowSums         [B, A, S] or [A, T] float32 (float64 for float64 operands)
#include "ops/attention_row_sums.h"

#include "core/validation.h"

namespace mtl {
namespace {

Status validate(const OpCall& call) {
  using Op = AttentionRowSums;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kOutputGradient));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kOutputGradient, 3, 4));
  const TensorView& gradient = call.tensor(Op::kOutputGradient);
  const DType exact = gradient.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  MTL_RETURN_IF_ERROR(expect_same_shape(call, Op::kOutput, Op::kOutputGradient));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kOutput, {gradient.dtype, exact}));
  MTL_RETURN_IF_ERROR(gradient.rank == 3
                          ? expect_shape(call, Op::kRowSums, {gradient.dim(1), gradient.dim(0)})
                          : expect_shape(call, Op::kRowSums, {gradient.dim(1), gradient.dim(2), gradient.dim(0)}));
  return expect_dtype(call, Op::kRowSums, {exact});
}

MTL_REGISTER_OP(OpSchema{"attention_row_sums", 1, {"rowSums", "output", "outputGradient"}, {}, validate, nullptr});

}  // namespace

SummedRows summed_rows_of(const OpCall& call) {
  const TensorView& output = call.tensor(AttentionRowSums::kOutput);
  return {output.dim(0), output.rank == 3 ? output.dim(1) : output.dim(1) * output.dim(2), output.dim(-1)};
}

}  // namespace mtl

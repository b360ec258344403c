// merge_attention: merges attention results of the same queries over different keys, which is a step of ring
// attention (Liu et al. 2023). output and logSumExp are over some of the keys, partOutput and partLogSumExp
// over other keys; output and logSumExp become the results over all these keys.
//
//   S query positions, B micro-batch size, A query heads, D head size of values
//   output, partOutput        [S, B, A, D] or, for packed samples, [T, A, D]; float32 or float64
//   logSumExp, partLogSumExp  [B, A, S] or [A, T], of the same dtype: the log of the softmax's denominator
//
//   g = sigmoid(partLogSumExp - logSumExp)
//   output    = (1 - g) * output + g * partOutput
//   logSumExp = log(e^logSumExp + e^partLogSumExp)
//
// Only exponentials of differences are computed, so none overflows. kEmptyLogSumExp means that a part has no
// keys: merged with it, the remaining part keeps its bits, and merging two empty parts gives an empty part,
// with output 0.
//
// logSumExp and partLogSumExp may be strided views whose last dimension is contiguous: a range of a
// sequence's positions is merged in place.
#include "ops/merge_attention.h"

#include "core/validation.h"

namespace mtl {
namespace {

Status expect_statistics(const OpCall& call, int tensor, const TensorView& output) {
  MTL_RETURN_IF_ERROR(output.rank == 3 ? expect_shape(call, tensor, {output.dim(1), output.dim(0)})
                                       : expect_shape(call, tensor, {output.dim(1), output.dim(2), output.dim(0)}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {output.dtype}));
  return expect_whole_rows(call, tensor);
}

Status validate(const OpCall& call) {
  using Op = MergeAttention;
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kOutput, 3, 4));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kOutput, {DType::kFloat32, DType::kFloat64}));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kPartOutput, Op::kOutput));
  for (const int tensor : {int{Op::kLogSumExp}, int{Op::kPartLogSumExp}}) {
    MTL_RETURN_IF_ERROR(expect_statistics(call, tensor, call.tensor(Op::kOutput)));
  }
  MTL_RETURN_IF_ERROR(expect_separate_output(call, Op::kOutput, {Op::kPartOutput, Op::kPartLogSumExp}));
  return expect_separate_output(call, Op::kLogSumExp, {Op::kPartOutput, Op::kPartLogSumExp});
}

MTL_REGISTER_OP(OpSchema{"merge_attention",
                         2,
                         {"output", "logSumExp", "partOutput", "partLogSumExp"},
                         {},
                         validate,
                         nullptr,
                         strided_tensors(MergeAttention::kLogSumExp, MergeAttention::kPartLogSumExp)});

}  // namespace

MergedRows merged_rows_of(const OpCall& call) {
  using Op = MergeAttention;
  const TensorView &output = call.tensor(Op::kOutput), &whole = call.tensor(Op::kLogSumExp), &part = call.tensor(Op::kPartLogSumExp);
  const bool packed = output.rank == 3;
  return {output.rows(),
          output.dim(-1),
          packed ? 1 : output.dim(1),
          output.dim(-2),
          packed ? 0 : whole.stride(0),
          whole.stride(-2),
          packed ? 0 : part.stride(0),
          part.stride(-2)};
}

}  // namespace mtl

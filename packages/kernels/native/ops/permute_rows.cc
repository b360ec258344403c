// permute_rows: output[r] = input[sources[r] / topK], or zeros where sources[r] is -1. Rows of the same
//               expert's tokens become adjacent
// combine_rows: output[t] = sum over slots, in their order, of rows[positions[t, slot]], where positions are
// not -1
//
//   permute_rows  output [..., H] of R rows, input [..., H] of T rows, sources [R] int32: flat slots
//                 t * topK + slot
//   combine_rows  output [..., H] of T rows, rows [..., H] of R rows, positions [T, k] int32
//   An invalid row index is MTL_INDEX. Sums are computed in float32 (double for float64) and rounded once.
//
// With the `sources` and `positions` of one call of group_by_expert, each op is the backward op of the other.
#include <string>

#include "core/validation.h"
#include "ops/permute_rows.h"

namespace mtl {
namespace {

Status validate_rows(const OpCall& call, int output, int input) {
  MTL_RETURN_IF_ERROR(expect_floating(call, input));
  MTL_RETURN_IF_ERROR(expect_rank(call, input, 2, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_rank(call, output, 2, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_dtype(call, output, {call.tensor(input).dtype}));
  if (call.tensor(output).dim(-1) == call.tensor(input).dim(-1)) {
    return expect_separate_output(call, output, {input});
  }
  return error_status("MTL_SHAPE", "%s: output has rows of %lld elements, expected as many as the input: %lld", call.op,
                      static_cast<long long>(call.tensor(output).dim(-1)),
                      static_cast<long long>(call.tensor(input).dim(-1)));
}

// Returns the number of rows of a tensor, even if its last dimension is empty.
int64_t num_rows(const TensorView& tensor) {
  int64_t rows = 1;
  for (int dim = 0; dim + 1 < tensor.rank; ++dim) rows *= tensor.shape[dim];
  return rows;
}

Status expect_output_rows(const OpCall& call, int output, int indices) {
  const int64_t actual = num_rows(call.tensor(output)), expected = call.tensor(indices).dim(0);
  if (actual == expected) return ok_status();
  return error_status("MTL_SHAPE", "%s: output has %lld rows, expected as many as %s: %lld", call.op,
                      static_cast<long long>(actual), tensor_name(call, indices), static_cast<long long>(expected));
}

Status validate_permute(const OpCall& call) {
  using Op = PermuteRows;
  MTL_RETURN_IF_ERROR(validate_rows(call, Op::kOutput, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kSources, 1, 1));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kSources, {DType::kInt32}));
  const double top_k = call.attribute(Op::kTopK);
  if (!(top_k >= 1 && top_k < 2147483648.0) || static_cast<double>(call.integer(Op::kTopK)) != top_k) {
    return argument_error(call, "topK is %g, expected a whole number from 1", top_k);
  }
  return expect_output_rows(call, Op::kOutput, Op::kSources);
}

Status validate_combine(const OpCall& call) {
  using Op = CombineRows;
  MTL_RETURN_IF_ERROR(validate_rows(call, Op::kOutput, Op::kRows));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kPositions, 2, 2));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kPositions, {DType::kInt32}));
  return expect_output_rows(call, Op::kOutput, Op::kPositions);
}

MTL_REGISTER_OP(OpSchema{"permute_rows", 1, {"output", "input", "sources"}, {"topK"}, validate_permute, nullptr});
MTL_REGISTER_OP(OpSchema{"combine_rows", 1, {"output", "rows", "positions"}, {}, validate_combine, nullptr});

}  // namespace
}  // namespace mtl

// rotary_embedding: rotates pairs of elements of every head by angles that depend on the position of the row
// (RoPE, Su et al. 2021). The gradient of its input is the inverse rotation of its output's gradient.
//
//   input, output  [S, B, ..., D] or [T, ..., D]: any number of dimensions for heads
//   positions      [S, B] or [T] int32: the row of the table for each row of heads
//   table          [P, R] float32: the cosines of R / 2 angles, then their sines; R is even, from 2 to D
//   interleaved    0: pair i is elements i and i + R / 2 (Llama);  1: elements 2i and 2i + 1
//   inverse        1: rotates by the negative angles
//
//   (a, b) becomes (a * cos - b * sin, a * sin + b * cos). Elements from R on are copied. A position outside
//   of the table is MTL_INDEX.
//
// Input and output may be strided views whose last dimension is contiguous, and may be the same memory: the
// queries and keys in a packed projection are rotated in place.
#include "ops/rotary_embedding.h"

#include "core/validation.h"

namespace mtl {
namespace {

Status validate(const OpCall& call) {
  using Op = RotaryEmbedding;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kInput, 2, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_whole_rows(call, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kOutput, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_whole_rows(call, Op::kOutput));
  const TensorView& input = call.tensor(Op::kInput);
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kPositions, 1, input.rank < 3 ? 1 : 2));
  MTL_RETURN_IF_ERROR(call.tensor(Op::kPositions).rank == 1
                          ? expect_shape(call, Op::kPositions, {input.dim(0)})
                          : expect_shape(call, Op::kPositions, {input.dim(0), input.dim(1)}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kPositions, {DType::kInt32}));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kTable, 2, 2));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kTable, {DType::kFloat32}));
  const int64_t size = call.tensor(Op::kTable).dim(1);
  if (size >= 2 && size % 2 == 0 && size <= input.dim(-1)) return ok_status();
  return error_status("MTL_SHAPE", "%s: table has rows of %lld elements for heads of %lld, expected an even number from 2 "
                      "to the head size", call.op, static_cast<long long>(size), static_cast<long long>(input.dim(-1)));
}

MTL_REGISTER_OP(OpSchema{"rotary_embedding",
                         1,
                         {"output", "input", "positions", "table"},
                         {"interleaved", "inverse"},
                         validate,
                         nullptr,
                         strided_tensors(RotaryEmbedding::kOutput, RotaryEmbedding::kInput)});

}  // namespace
}  // namespace mtl

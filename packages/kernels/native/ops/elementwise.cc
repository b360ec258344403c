// cast:  output = input, converted between floating dtypes (the same dtype: a copy); either may be a strided
//        view of whole rows, and then both must have the same shape
// scale: output = factor * input, added to output if accumulate is 1; the tensors have any floating dtypes
//        and the same shape; either may be a strided view of whole rows
// add:   output = left + right; all have the same floating dtype; output may be left or right itself
#include "core/validation.h"
#include "ops/elementwise.h"

namespace mtl {
namespace {

Status validate_cast(const OpCall& call) {
  using Op = Cast;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kOutput));
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kInput));
  const TensorView &output = call.tensor(Op::kOutput), &input = call.tensor(Op::kInput);
  if (output.is_strided || input.is_strided) {
    MTL_RETURN_IF_ERROR(expect_rank(call, Op::kOutput, 1, kMaxRank));
    // strided views are accessed by index, which requires that both tensors have the same shape
    MTL_RETURN_IF_ERROR(expect_same_shape(call, Op::kOutput, Op::kInput));
    MTL_RETURN_IF_ERROR(expect_whole_rows(call, Op::kOutput));
    return expect_whole_rows(call, Op::kInput);
  }
  return expect_as_many(call, Op::kOutput, Op::kInput);
}

Status validate_scale(const OpCall& call) {
  using Op = Scale;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kOutput));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kOutput, 1, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_same_shape(call, Op::kOutput, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_whole_rows(call, Op::kOutput));
  return expect_whole_rows(call, Op::kInput);
}

Status validate_add(const OpCall& call) {
  using Op = Add;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kLeft));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kOutput, Op::kLeft));
  return expect_like(call, Op::kRight, Op::kLeft);
}

MTL_REGISTER_OP(OpSchema{
    "cast", 1, {"output", "input"}, {}, validate_cast, nullptr, strided_tensors(Cast::kOutput, Cast::kInput)});
MTL_REGISTER_OP(OpSchema{"scale",
                         1,
                         {"output", "input"},
                         {"factor", "accumulate"},
                         validate_scale,
                         nullptr,
                         strided_tensors(Scale::kOutput, Scale::kInput)});
MTL_REGISTER_OP(OpSchema{"add", 1, {"output", "left", "right"}, {}, validate_add, nullptr});

}  // namespace
}  // namespace mtl

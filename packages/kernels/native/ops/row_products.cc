// row_products: output = the sum over the last dimension of left * right, or of left * right * weight
//
//   left, right  [..., H]      weight?  [H]      output  [rows] float32 (float64 for float64 operands)
//
// Computes the sums for a norm whose features are sharded over processes: sums of squares and, in the
// backward pass, of gradients times inputs. They are added over processes between this op and rms_norm.
#include "ops/row_products.h"

#include "core/validation.h"

namespace mtl {
namespace {

Status validate(const OpCall& call) {
  using Op = RowProducts;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kLeft));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kLeft, 1, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kRight, Op::kLeft));
  const TensorView& left = call.tensor(Op::kLeft);
  if (call.has(Op::kWeight)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kWeight, {left.dim(-1)}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kWeight, {left.dtype}));
  }
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kOutput, {left.rows()}));
  return expect_dtype(call, Op::kOutput, {left.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32});
}

MTL_REGISTER_OP(OpSchema{"row_products", 1, {"output", "left", "right", "weight?"}, {}, validate, nullptr});

}  // namespace
}  // namespace mtl

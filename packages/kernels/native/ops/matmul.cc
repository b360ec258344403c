// matmul: output[..., M, N] = op(left) @ op(right) + bias (+ output), where op may transpose
//
//   output  [B..., M, N]  the inputs' dtype, or float32 for bfloat16 or float16 inputs (main gradients)
//   left    [B..., M, K]  or [B..., K, M] when transposeLeft
//   right   [B..., K, N]  or [B..., N, K] when transposeRight; without leading dimensions it is shared by
//           the batch
//   bias?   [N]
//   output shares no memory with the inputs.
//
// If `right` has no batch, the leading dimensions of `left` are folded into M. With transposeLeft, they are
// instead folded into K, which gives the weight gradient, a sum over all tokens.
#include "ops/matmul.h"

#include "core/validation.h"

namespace mtl {
namespace {

// Returns the product of all dimensions except the last `count`. The sizes are multiplied one by one, because
// dividing the total size would fail for an empty tensor.
int64_t leading(const TensorView& view, int count) {
  int64_t product = 1;
  for (int dim = 0; dim < view.rank - count; ++dim) product *= view.shape[dim];
  return product;
}

// Returns true if the batch can be computed as one matmul. The leading dimensions become rows or, if `left`
// is transposed, are summed over.
bool is_folded(const OpCall& call) {
  return call.tensor(Matmul::kRight).rank == 2 ||
         (call.flag(Matmul::kTransposeLeft) && call.tensor(Matmul::kOutput).rank == 2);
}

// left_inner returns the number of columns of op(left), and right_inner the number of rows of op(right). Both
// must equal K, the number of terms in each sum.
int64_t left_inner(const OpCall& call, bool is_transposed) {
  const TensorView& left = call.tensor(Matmul::kLeft);
  if (!is_transposed) return left.dim(-1);
  return is_folded(call) ? leading(left, 1) : left.dim(-2);
}

int64_t right_inner(const OpCall& call, bool is_transposed) {
  const TensorView& right = call.tensor(Matmul::kRight);
  if (is_transposed) return right.dim(-1);
  return is_folded(call) ? leading(right, 1) : right.dim(-2);
}

Status validate_shapes(const OpCall& call) {
  const TensorView &output = call.tensor(Matmul::kOutput), &left = call.tensor(Matmul::kLeft),
                   &right = call.tensor(Matmul::kRight);
  const bool transpose_left = call.flag(Matmul::kTransposeLeft), transpose_right = call.flag(Matmul::kTransposeRight);
  const MatmulSizes sizes = matmul_sizes(call);
  const int64_t inner = right_inner(call, transpose_right);
  if (sizes.inner != inner) {
    const bool fits_right = left_inner(call, transpose_left) == right_inner(call, !transpose_right);
    const bool fits_left = left_inner(call, !transpose_left) == right_inner(call, transpose_right);
    return error_status("MTL_SHAPE",
                        "matmul: left %s%s has %lld columns, right %s%s has %lld rows: %lld is not %lld%s%s%s",
                        ShapeText(left).text, transpose_left ? " transposed" : "", static_cast<long long>(sizes.inner),
                        ShapeText(right).text, transpose_right ? " transposed" : "", static_cast<long long>(inner),
                        static_cast<long long>(sizes.inner), static_cast<long long>(inner),
                        fits_right ? (transpose_right ? "; transposeRight: false fits" : "; transposeRight: true fits") : "",
                        fits_left ? (transpose_left ? "; transposeLeft: false fits" : "; transposeLeft: true fits") : "",
                        fits_left || fits_right ? "" : ", expected as many");
  }
  if (is_folded(call) ? transpose_right && right.rank != 2
                      : left.rank != right.rank || leading(left, 2) != leading(right, 2)) {
    return error_status("MTL_SHAPE", "matmul: left %s and right %s differ in leading dimensions, expected the same%s",
                        ShapeText(left).text, ShapeText(right).text,
                        transpose_left ? "" : ", or two dimensions of right");
  }
  const bool fits = output.dim(-1) == sizes.columns && leading(output, 1) == sizes.batch * sizes.rows &&
                    (sizes.batch == 1 || output.dim(-2) == sizes.rows);
  if (fits) return ok_status();
  int64_t expected[kMaxRank] = {sizes.rows, sizes.columns};
  const int rank = is_folded(call) && transpose_left ? 2 : left.rank;
  if (rank > 2) {
    for (int dim = 0; dim < rank - 2; ++dim) expected[dim] = left.shape[dim];
    expected[rank - 2] = left.dim(transpose_left ? -1 : -2);
    expected[rank - 1] = sizes.columns;
  }
  return shape_error(call, Matmul::kOutput, expected, rank);
}

Status validate(const OpCall& call) {
  for (int tensor = Matmul::kOutput; tensor <= Matmul::kRight; ++tensor) {
    MTL_RETURN_IF_ERROR(expect_rank(call, tensor, 2, kMaxRank));
    MTL_RETURN_IF_ERROR(expect_floating(call, tensor));
  }
  const DType dtype = call.tensor(Matmul::kLeft).dtype;
  MTL_RETURN_IF_ERROR(expect_dtype(call, Matmul::kRight, {dtype}));
  if (dtype == DType::kBFloat16 || dtype == DType::kFloat16) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, Matmul::kOutput, {dtype, DType::kFloat32}));
  } else {
    MTL_RETURN_IF_ERROR(expect_dtype(call, Matmul::kOutput, {dtype}));
  }
  MTL_RETURN_IF_ERROR(validate_shapes(call));
  if (call.has(Matmul::kBias)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Matmul::kBias, {matmul_sizes(call).columns}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Matmul::kBias, {dtype, DType::kFloat32}));
  }
  return expect_separate_output(call, Matmul::kOutput, {Matmul::kLeft, Matmul::kRight, Matmul::kBias});
}

double flops(const OpCall& call) {
  const MatmulSizes sizes = matmul_sizes(call);
  return 2.0 * static_cast<double>(sizes.batch) * static_cast<double>(sizes.rows) *
         static_cast<double>(sizes.columns) * static_cast<double>(sizes.inner);
}

MTL_REGISTER_OP(OpSchema{"matmul",
                         1,
                         {"output", "left", "right", "bias?"},
                         {"transposeLeft", "transposeRight", "accumulate"},
                         validate,
                         flops});

}  // namespace

MatmulSizes matmul_sizes(const OpCall& call) {
  const TensorView &left = call.tensor(Matmul::kLeft), &right = call.tensor(Matmul::kRight);
  const bool transpose_left = call.flag(Matmul::kTransposeLeft);
  MatmulSizes sizes;
  sizes.inner = left_inner(call, transpose_left);
  sizes.columns = call.flag(Matmul::kTransposeRight) ? right.dim(-2) : right.dim(-1);
  if (is_folded(call)) {
    sizes.rows = transpose_left ? left.dim(-1) : leading(left, 1);
  } else {
    sizes.batch = leading(left, 2);
    sizes.rows = transpose_left ? left.dim(-1) : left.dim(-2);
  }
  return sizes;
}

}  // namespace mtl

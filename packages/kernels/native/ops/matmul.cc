// matmul: output[..., M, N] = op(left) op(right) + bias (+ output)
//
//   output  [B..., M, N]  input dtype, or float32 over bfloat16 or float16 inputs (main gradients)
//   left    [B..., M, K]  or [B..., K, M] when transposeLeft
//   right   [B..., K, N]  or [B..., N, K] when transposeRight; without leading dimensions it is shared by the batch
//   bias?   [N]
//   output shares no memory with the others.
//
// Where `right` has no batch, the leading dimensions of `left` are folded into M (not possible with
// transposeLeft, where they are folded into K: the weight gradient, a sum over all tokens).
#include "ops/matmul.h"

#include "core/validation.h"

namespace mtl {
namespace {

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
  const MatmulSizes sizes = matmul_sizes(call);
  const TensorView& output = call.tensor(Matmul::kOutput);
  const bool fits = sizes.consistent && output.dim(-1) == sizes.columns &&
                    output.size() == sizes.batch * sizes.rows * sizes.columns &&
                    (sizes.batch == 1 || output.dim(-2) == sizes.rows);
  if (!fits) {
    const TensorView& left = call.tensor(Matmul::kLeft);
    const TensorView& right = call.tensor(Matmul::kRight);
    return error_status("MTL_SHAPE",
                        "matmul: left [..., %lld, %lld]%s times right [..., %lld, %lld]%s does not give output "
                        "[..., %lld, %lld] of %lld elements",
                        static_cast<long long>(left.dim(-2)), static_cast<long long>(left.dim(-1)),
                        call.flag(Matmul::kTransposeLeft) ? " transposed" : "", static_cast<long long>(right.dim(-2)),
                        static_cast<long long>(right.dim(-1)), call.flag(Matmul::kTransposeRight) ? " transposed" : "",
                        static_cast<long long>(output.dim(-2)), static_cast<long long>(output.dim(-1)),
                        static_cast<long long>(output.size()));
  }
  if (call.has(Matmul::kBias)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Matmul::kBias, {sizes.columns}));
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
  const TensorView& left = call.tensor(Matmul::kLeft);
  const TensorView& right = call.tensor(Matmul::kRight);
  const bool transpose_left = call.flag(Matmul::kTransposeLeft);
  const bool transpose_right = call.flag(Matmul::kTransposeRight);
  MatmulSizes sizes;
  const bool shared = right.rank == 2 || (transpose_left && call.tensor(Matmul::kOutput).rank == 2);
  if (shared) {
    // One matmul: leading dimensions become rows, or are summed over when the left operand is transposed.
    sizes.rows = transpose_left ? left.dim(-1) : left.rows();
    sizes.inner = transpose_left ? left.rows() : left.dim(-1);
    sizes.columns = transpose_right ? right.dim(-2) : right.dim(-1);
    const int64_t right_inner = transpose_right ? right.dim(-1) : right.rows();
    sizes.consistent = sizes.inner == right_inner && !(transpose_right && right.rank != 2);
    return sizes;
  }
  sizes.rows = transpose_left ? left.dim(-1) : left.dim(-2);
  sizes.inner = transpose_left ? left.dim(-2) : left.dim(-1);
  sizes.columns = transpose_right ? right.dim(-2) : right.dim(-1);
  sizes.batch = left.size() / (sizes.rows * sizes.inner == 0 ? 1 : sizes.rows * sizes.inner);
  sizes.consistent = left.rank == right.rank && sizes.inner == (transpose_right ? right.dim(-1) : right.dim(-2)) &&
                     right.size() == sizes.batch * sizes.inner * sizes.columns;
  return sizes;
}

}  // namespace mtl

// sum_rows:       output[n] = sum over rows of input[..., n] (+ output when accumulate): bias gradients
// sum_of_squares: output[0] = sum of input^2 (+ output when accumulate), in double and in a fixed order:
//                 gradient norms
// weighted_sum:   output[0] = sum of values * weights, in double and in a fixed order: the loss of a
// micro-batch
//
//   sum_rows:       output [N] float32 (float64 for float64 inputs), input [..., N]
//   sum_of_squares: output [1] float64, input of any shape, float32 or float64
//   weighted_sum:   output [1] float64, values and weights of any shapes, with equally many elements; values
//                   are float32 or float64, and weights have the same dtype or float32
#include "core/validation.h"
#include "ops/reductions.h"

namespace mtl {
namespace {

Status validate_sum_rows(const OpCall& call) {
  using Op = SumRows;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kInput, 1, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kOutput, {call.tensor(Op::kInput).dim(-1)}));
  const bool wide = call.tensor(Op::kInput).dtype == DType::kFloat64;
  return expect_dtype(call, Op::kOutput, {wide ? DType::kFloat64 : DType::kFloat32});
}

Status validate_sum_of_squares(const OpCall& call) {
  using Op = SumOfSquares;
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kOutput, {1}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kOutput, {DType::kFloat64}));
  return expect_dtype(call, Op::kInput, {DType::kFloat32, DType::kFloat64});
}

Status validate_weighted_sum(const OpCall& call) {
  using Op = WeightedSum;
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kOutput, {1}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kOutput, {DType::kFloat64}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kValues, {DType::kFloat32, DType::kFloat64}));
  if (call.tensor(Op::kWeights).size() != call.tensor(Op::kValues).size()) {
    return error_status("MTL_SHAPE", "%s: values has %lld elements and weights %lld, expected as many", call.op,
                        static_cast<long long>(call.tensor(Op::kValues).size()),
                            static_cast<long long>(call.tensor(Op::kWeights).size()));
  }
  return expect_dtype(call, Op::kWeights, {DType::kFloat32, call.tensor(Op::kValues).dtype});
}

MTL_REGISTER_OP(OpSchema{"sum_rows", 1, {"output", "input"}, {"accumulate"}, validate_sum_rows, nullptr});
MTL_REGISTER_OP(OpSchema{"sum_of_squares", 1, {"output", "input"}, {"accumulate"}, validate_sum_of_squares, nullptr});
MTL_REGISTER_OP(OpSchema{"weighted_sum", 1, {"output", "values", "weights"}, {}, validate_weighted_sum, nullptr});

}  // namespace
}  // namespace mtl

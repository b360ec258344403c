#include "backends/cpu/reference/element.h"
#include "ops/reductions.h"

namespace mtl::reference {
namespace {

Status sum_rows(const OpCall& call) {
  using Op = SumRows;
  const TensorView& input = call.tensor(Op::kInput);
  for (int64_t column = 0; column < input.dim(-1); ++column) {
    double sum = call.flag(Op::kAccumulate) ? get(call.tensor(Op::kOutput), column) : 0.0;
    for (int64_t row = 0; row < input.rows(); ++row) sum += get(input, row * input.dim(-1) + column);
    set(call.tensor(Op::kOutput), column, sum);
  }
  return ok_status();
}

Status sum_of_squares(const OpCall& call) {
  using Op = SumOfSquares;
  const TensorView& input = call.tensor(Op::kInput);
  double sum = call.flag(Op::kAccumulate) ? get(call.tensor(Op::kOutput), 0) : 0.0;
  for (int64_t index = 0; index < input.size(); ++index) sum += get(input, index) * get(input, index);
  set(call.tensor(Op::kOutput), 0, sum);
  return ok_status();
}

Status weighted_sum(const OpCall& call) {
  using Op = WeightedSum;
  double sum = 0.0;
  for (int64_t index = 0; index < call.tensor(Op::kValues).size(); ++index) {
    sum += get(call.tensor(Op::kValues), index) * get(call.tensor(Op::kWeights), index);
  }
  set(call.tensor(Op::kOutput), 0, sum);
  return ok_status();
}

MTL_REGISTER_REFERENCE("sum_rows", sum_rows);
MTL_REGISTER_REFERENCE("sum_of_squares", sum_of_squares);
MTL_REGISTER_REFERENCE("weighted_sum", weighted_sum);

}  // namespace
}  // namespace mtl::reference

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

Status sum_rows(const OpCall& call) {
  const TensorView& input = call.tensor(1);
  for (int64_t column = 0; column < input.dim(-1); ++column) {
    double sum = call.flag(0) ? get(call.tensor(0), column) : 0.0;
    for (int64_t row = 0; row < input.rows(); ++row) sum += get(input, row * input.dim(-1) + column);
    set(call.tensor(0), column, sum);
  }
  return ok_status();
}

Status sum_of_squares(const OpCall& call) {
  const TensorView& input = call.tensor(1);
  double sum = call.flag(0) ? get(call.tensor(0), 0) : 0.0;
  for (int64_t index = 0; index < input.size(); ++index) sum += get(input, index) * get(input, index);
  set(call.tensor(0), 0, sum);
  return ok_status();
}

Status weighted_sum(const OpCall& call) {
  double sum = 0.0;
  for (int64_t index = 0; index < call.tensor(1).size(); ++index) {
    sum += get(call.tensor(1), index) * get(call.tensor(2), index);
  }
  set(call.tensor(0), 0, sum);
  return ok_status();
}

MTL_REGISTER_REFERENCE("sum_rows", sum_rows);
MTL_REGISTER_REFERENCE("sum_of_squares", sum_of_squares);
MTL_REGISTER_REFERENCE("weighted_sum", weighted_sum);

}  // namespace
}  // namespace mtl::reference

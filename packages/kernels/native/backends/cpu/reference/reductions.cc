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

MTL_REGISTER_REFERENCE("sum_rows", sum_rows);
MTL_REGISTER_REFERENCE("sum_of_squares", sum_of_squares);

}  // namespace
}  // namespace mtl::reference

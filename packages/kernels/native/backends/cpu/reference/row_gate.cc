#include "ops/row_gate.h"

#include <cmath>

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

Status forward(const OpCall& call) {
  using Op = RowGateForward;
  const TensorView &input = call.tensor(Op::kInput), &output = call.tensor(Op::kOutput);
  const int64_t hidden = input.dim(-1);
  for (int64_t row = 0; row < input.rows(); ++row) {
    const double gate = sigmoid(get(call.tensor(Op::kLogits), row));
    for (int64_t h = row * hidden; h < (row + 1) * hidden; ++h) set(output, h, gate * get(input, h));
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = RowGateBackward;
  const TensorView &input = call.tensor(Op::kInput), &output_gradient = call.tensor(Op::kOutputGradient);
  const int64_t hidden = input.dim(-1);
  for (int64_t row = 0; row < input.rows(); ++row) {
    const double gate = sigmoid(get(call.tensor(Op::kLogits), row));
    double sum = 0.0;
    for (int64_t h = row * hidden; h < (row + 1) * hidden; ++h) {
      sum += get(output_gradient, h) * get(input, h);
      set(call.tensor(Op::kInputGradient), h, gate * get(output_gradient, h));
    }
    set(call.tensor(Op::kLogitsGradient), row, gate * (1.0 - gate) * sum);
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("row_gate_forward", forward);
MTL_REGISTER_REFERENCE("row_gate_backward", backward);

}  // namespace
}  // namespace mtl::reference

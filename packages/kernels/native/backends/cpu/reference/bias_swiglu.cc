#include "ops/bias_swiglu.h"

#include <cmath>

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Returns input + bias for the given row and column.
double biased(const OpCall& call, int input, int bias, int64_t row, int64_t column) {
  return get(call.tensor(input), row * call.tensor(input).dim(-1) + column) +
         (call.has(bias) ? get(call.tensor(bias), column) : 0.0);
}

// Calls body(row, column, gate, up) for every element of `halved`, which is half as wide as the input.
template <typename Op, typename Body>
Status for_each_element(const OpCall& call, const TensorView& halved, const Body& body) {
  const int64_t width = halved.dim(-1);
  for (int64_t row = 0; row < halved.rows(); ++row) {
    for (int64_t f = 0; f < width; ++f) {
      body(row, f, biased(call, Op::kInput, Op::kBias, row, f), biased(call, Op::kInput, Op::kBias, row, width + f));
    }
  }
  return ok_status();
}

Status forward(const OpCall& call) {
  using Op = BiasSwigluForward;
  const TensorView& output = call.tensor(Op::kOutput);
  return for_each_element<Op>(call, output, [&](int64_t row, int64_t f, double gate, double up) {
    set(output, row * output.dim(-1) + f, gate * sigmoid(gate) * up);
  });
}

Status backward(const OpCall& call) {
  using Op = BiasSwigluBackward;
  const TensorView &output_gradient = call.tensor(Op::kOutputGradient), &input_gradient = call.tensor(Op::kInputGradient);
  const int64_t width = output_gradient.dim(-1);
  return for_each_element<Op>(call, output_gradient, [&](int64_t row, int64_t f, double gate, double up) {
    const double gradient = get(output_gradient, row * width + f), s = sigmoid(gate);
    set(input_gradient, row * 2 * width + f, gradient * up * (s + gate * s * (1.0 - s)));
    set(input_gradient, row * 2 * width + width + f, gradient * gate * s);
  });
}

MTL_REGISTER_REFERENCE("bias_swiglu_forward", forward);
MTL_REGISTER_REFERENCE("bias_swiglu_backward", backward);

}  // namespace
}  // namespace mtl::reference

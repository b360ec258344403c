#include "ops/bias_swiglu.h"

#include <cmath>

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// input + bias, by row and column
double biased(const OpCall& call, int input, int bias, int64_t row, int64_t column) {
  return get(call.tensor(input), row * call.tensor(input).dim(-1) + column) +
         (call.has(bias) ? get(call.tensor(bias), column) : 0.0);
}

Status forward(const OpCall& call) {
  using Op = BiasSwigluForward;
  const TensorView& output = call.tensor(Op::kOutput);
  const int64_t width = output.dim(-1);
  for (int64_t row = 0; row < output.rows(); ++row) {
    for (int64_t f = 0; f < width; ++f) {
      const double gate = biased(call, Op::kInput, Op::kBias, row, f);
      const double up = biased(call, Op::kInput, Op::kBias, row, width + f);
      set(output, row * width + f, gate * sigmoid(gate) * up);
    }
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = BiasSwigluBackward;
  const TensorView& output_gradient = call.tensor(Op::kOutputGradient);
  const int64_t width = output_gradient.dim(-1);
  for (int64_t row = 0; row < output_gradient.rows(); ++row) {
    for (int64_t f = 0; f < width; ++f) {
      const double gate = biased(call, Op::kInput, Op::kBias, row, f);
      const double up = biased(call, Op::kInput, Op::kBias, row, width + f);
      const double gradient = get(output_gradient, row * width + f), s = sigmoid(gate);
      set(call.tensor(Op::kInputGradient), row * 2 * width + f, gradient * up * (s + gate * s * (1.0 - s)));
      set(call.tensor(Op::kInputGradient), row * 2 * width + width + f, gradient * gate * s);
    }
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("bias_swiglu_forward", forward);
MTL_REGISTER_REFERENCE("bias_swiglu_backward", backward);

}  // namespace
}  // namespace mtl::reference

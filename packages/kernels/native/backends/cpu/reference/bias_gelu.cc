#include <cmath>

#include "backends/cpu/reference/element.h"
#include "ops/bias_gelu.h"

namespace mtl::reference {
namespace {

const double kPi = std::acos(-1.0);

double gelu(double z, bool erf) {
  if (erf) return 0.5 * z * (1.0 + std::erf(z / std::sqrt(2.0)));
  return 0.5 * z * (1.0 + std::tanh(std::sqrt(2.0 / kPi) * (z + 0.044715 * z * z * z)));
}

double gelu_derivative(double z, bool erf) {
  if (erf) return 0.5 * (1.0 + std::erf(z / std::sqrt(2.0))) + z * std::exp(-0.5 * z * z) / std::sqrt(2.0 * kPi);
  const double scale = std::sqrt(2.0 / kPi);
  const double t = std::tanh(scale * (z + 0.044715 * z * z * z));
  return 0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * scale * (1.0 + 3.0 * 0.044715 * z * z);
}

double biased(const TensorView& input, const TensorView& bias, int64_t index) {
  return get(input, index) + (bias.present() ? get(bias, index % input.dim(-1)) : 0.0);
}

Status forward(const OpCall& call) {
  using Op = BiasGeluForward;
  const TensorView& output = call.tensor(Op::kOutput);
  for (int64_t index = 0; index < output.size(); ++index) {
    set(output, index, gelu(biased(call.tensor(Op::kInput), call.tensor(Op::kBias), index), call.flag(Op::kErf)));
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = BiasGeluBackward;
  const TensorView& input_gradient = call.tensor(Op::kInputGradient);
  for (int64_t index = 0; index < input_gradient.size(); ++index) {
    const double derivative = gelu_derivative(biased(call.tensor(Op::kInput), call.tensor(Op::kBias), index),
                                              call.flag(Op::kErf));
    set(input_gradient, index, get(call.tensor(Op::kOutputGradient), index) * derivative);
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("bias_gelu_forward", forward);
MTL_REGISTER_REFERENCE("bias_gelu_backward", backward);

}  // namespace
}  // namespace mtl::reference

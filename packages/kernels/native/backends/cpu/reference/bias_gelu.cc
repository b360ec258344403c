#include <cmath>

#include "backends/cpu/reference/element.h"

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
  const TensorView& output = call.tensor(0);
  for (int64_t index = 0; index < output.size(); ++index) {
    set(output, index, gelu(biased(call.tensor(1), call.tensor(2), index), call.flag(0)));
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  const TensorView& input_gradient = call.tensor(0);
  for (int64_t index = 0; index < input_gradient.size(); ++index) {
    const double derivative = gelu_derivative(biased(call.tensor(2), call.tensor(3), index), call.flag(0));
    set(input_gradient, index, get(call.tensor(1), index) * derivative);
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("bias_gelu_forward", forward);
MTL_REGISTER_REFERENCE("bias_gelu_backward", backward);

}  // namespace
}  // namespace mtl::reference

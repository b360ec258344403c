#include "ops/bias_squared_relu.h"

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

// Returns max(input + bias, 0). NaN stays NaN.
double rectified(const OpCall& call, int input, int bias, int64_t index) {
  const double z = get(call.tensor(input), index) +
                   (call.has(bias) ? get(call.tensor(bias), index % call.tensor(bias).size()) : 0.0);
  return z < 0.0 ? 0.0 : z;
}

Status forward(const OpCall& call) {
  using Op = BiasSquaredReluForward;
  for (int64_t i = 0; i < call.tensor(Op::kInput).size(); ++i) {
    const double z = rectified(call, Op::kInput, Op::kBias, i);
    set(call.tensor(Op::kOutput), i, z * z);
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = BiasSquaredReluBackward;
  for (int64_t i = 0; i < call.tensor(Op::kInput).size(); ++i) {
    const double gradient = get(call.tensor(Op::kOutputGradient), i);
    set(call.tensor(Op::kInputGradient), i, gradient * 2.0 * rectified(call, Op::kInput, Op::kBias, i));
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("bias_squared_relu_forward", forward);
MTL_REGISTER_REFERENCE("bias_squared_relu_backward", backward);

}  // namespace
}  // namespace mtl::reference

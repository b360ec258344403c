#include "backends/cpu/simd/hyperbolic_tangent.h"
#include "ops/tanh.h"

namespace mtl {
namespace {

Status forward(const OpCall& call) {
  using Op = TanhForward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    T* const output = call.data<T>(Op::kOutput);
    const T* const input = call.data<T>(Op::kInput);
    const int64_t size = call.tensor(Op::kInput).size();
    for_each_vector(size, [&](int64_t i, int64_t left) {
      store_up_to(output + i, hyperbolic_tangent(load_up_to(input + i, left)), left);
    });
    return ok_status();
  });
}

Status backward(const OpCall& call) {
  using Op = TanhBackward;
  return for_floating(call.tensor(Op::kOutput).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    T* const input_gradient = call.data<T>(Op::kInputGradient);
    const T *const output_gradient = call.data<T>(Op::kOutputGradient), *const output = call.data<T>(Op::kOutput);
    const int64_t size = call.tensor(Op::kOutput).size();
    for_each_vector(size, [&](int64_t i, int64_t left) {
      const VFloat value = load_up_to(output + i, left);
      // this form of 1 - v^2 stays precise for |v| near 1
      const VFloat derivative = (1.0f - value) * (1.0f + value);
      store_up_to(input_gradient + i, load_up_to(output_gradient + i, left) * derivative, left);
    });
    return ok_status();
  });
}

MTL_REGISTER_CPU("tanh_forward", forward);
MTL_REGISTER_CPU("tanh_backward", backward);

}  // namespace
}  // namespace mtl

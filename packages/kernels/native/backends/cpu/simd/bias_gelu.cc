#include "backends/cpu/simd/gelu.h"
#include "ops/bias_gelu.h"

namespace mtl {
namespace {

// Computes output[row, f] = gelu(input + bias), or gradient[row, f] * gelu'(input + bias) if kBackward is
// true.
template <bool kErf, bool kBackward, typename T>
void run(T* output, const T* gradient, const T* input, const T* bias, int64_t rows, int64_t columns) {
  for_each(rows, rows * columns, [&](int64_t row) {
    const int64_t start = row * columns;
    for (int64_t column = 0; column < columns; column += kLanes) {
      const int64_t left = columns - column;
      const int64_t at = start + column;
      VFloat z = load_up_to(input + at, left);
      if (bias != nullptr) z += load_up_to(bias + column, left);
      if (kBackward) {
        store_up_to(output + at, load_up_to(gradient + at, left) * gelu_derivative<kErf>(z), left);
      } else {
        store_up_to(output + at, gelu<kErf>(z), left);
      }
    }
  });
}

Status forward(const OpCall& call) {
  using Op = BiasGeluForward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    const TensorView& input = call.tensor(Op::kInput);
    auto* kernel = call.flag(Op::kErf) ? run<true, false, T> : run<false, false, T>;
    kernel(call.data<T>(Op::kOutput), nullptr, call.data<T>(Op::kInput), call.data<T>(Op::kBias), input.rows(),
           input.dim(-1));
    return ok_status();
  });
}

Status backward(const OpCall& call) {
  using Op = BiasGeluBackward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    const TensorView& input = call.tensor(Op::kInput);
    auto* kernel = call.flag(Op::kErf) ? run<true, true, T> : run<false, true, T>;
    kernel(call.data<T>(Op::kInputGradient), call.data<T>(Op::kOutputGradient), call.data<T>(Op::kInput),
           call.data<T>(Op::kBias), input.rows(), input.dim(-1));
    return ok_status();
  });
}

MTL_REGISTER_CPU("bias_gelu_forward", forward);
MTL_REGISTER_CPU("bias_gelu_backward", backward);

}  // namespace
}  // namespace mtl

#include "ops/bias_squared_relu.h"

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

// Computes output[row, f] = max(input + bias, 0)^2, or gradient[row, f] * 2 * max(input + bias, 0) if
// kBackward is true.
template <bool kBackward, typename T>
void run(T* output, const T* gradient, const T* input, const T* bias, int64_t rows, int64_t columns) {
  for_each(rows, rows * columns, [&](int64_t row) {
    const int64_t start = row * columns;
    for (int64_t column = 0; column < columns; column += kLanes) {
      const int64_t left = columns - column, at = start + column;
      VFloat z = load_up_to(input + at, left);
      if (bias != nullptr) z += load_up_to(bias + column, left);
      z = maximum(splat(0.0f), z);  // NaN stays NaN
      store_up_to(output + at, kBackward ? load_up_to(gradient + at, left) * (z + z) : z * z, left);
    }
  });
}

Status forward(const OpCall& call) {
  using Op = BiasSquaredReluForward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    const TensorView& input = call.tensor(Op::kInput);
    run<false, T>(call.data<T>(Op::kOutput), nullptr, call.data<T>(Op::kInput), call.data<T>(Op::kBias), input.rows(),
                  input.dim(-1));
    return ok_status();
  });
}

Status backward(const OpCall& call) {
  using Op = BiasSquaredReluBackward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    const TensorView& input = call.tensor(Op::kInput);
    run<true, T>(call.data<T>(Op::kInputGradient), call.data<T>(Op::kOutputGradient), call.data<T>(Op::kInput),
                 call.data<T>(Op::kBias), input.rows(), input.dim(-1));
    return ok_status();
  });
}

MTL_REGISTER_CPU("bias_squared_relu_forward", forward);
MTL_REGISTER_CPU("bias_squared_relu_backward", backward);

}  // namespace
}  // namespace mtl

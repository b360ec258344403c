#include "ops/bias_swiglu.h"

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

template <typename T>
MTL_INLINE VFloat biased(const T* row, const T* bias, int64_t column, int64_t left) {
  const VFloat value = load_up_to(row + column, left);
  return bias == nullptr ? value : value + load_up_to(bias + column, left);
}

// Returns 1 / (1 + e). `e` must be exponential(-gate), which is clamped to a finite value. If the gate is
// below -88, the sigmoid is less than float32's smallest normal number, and the result is 0, so that its
// product with a large gate is not large. NaN stays NaN.
MTL_INLINE VFloat sigmoid(VFloat gate, VFloat e) { return select(gate < -88.0f, splat(0.0f), 1.0f / (1.0f + e)); }

Status forward(const OpCall& call) {
  using Op = BiasSwigluForward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    const int64_t rows = call.tensor(Op::kOutput).rows(), width = call.tensor(Op::kOutput).dim(-1);
    T* const output = call.data<T>(Op::kOutput);
    const T *const input = call.data<T>(Op::kInput), *const bias = call.data<T>(Op::kBias);
    for_each(rows, rows * width, [&](int64_t row) {
      const T* const from = input + row * 2 * width;
      for (int64_t f = 0; f < width; f += kLanes) {
        const int64_t left = width - f;
        const VFloat gate = biased(from, bias, f, left), up = biased(from, bias, width + f, left);
        store_up_to(output + row * width + f, up * (gate * sigmoid(gate, exponential(-gate))), left);
      }
    });
    return ok_status();
  });
}

Status backward(const OpCall& call) {
  using Op = BiasSwigluBackward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    const int64_t rows = call.tensor(Op::kOutputGradient).rows(), width = call.tensor(Op::kOutputGradient).dim(-1);
    T* const input_gradient = call.data<T>(Op::kInputGradient);
    const T *const output_gradient = call.data<T>(Op::kOutputGradient), *const input = call.data<T>(Op::kInput),
                   *const bias = call.data<T>(Op::kBias);
    for_each(rows, rows * width, [&](int64_t row) {
      const T* const from = input + row * 2 * width;
      T* const to = input_gradient + row * 2 * width;
      for (int64_t f = 0; f < width; f += kLanes) {
        const int64_t left = width - f;
        const VFloat gate = biased(from, bias, f, left), up = biased(from, bias, width + f, left);
        const VFloat gradient = load_up_to(output_gradient + row * width + f, left);
        const VFloat e = exponential(-gate), s = sigmoid(gate, e);
        // the derivative of `gate * s` with respect to gate is `s + gate * s * (1 - s)`, where `1 - s = e *
        // s`
        store_up_to(to + f, gradient * up * (s + gate * s * (e * s)), left);
        store_up_to(to + width + f, gradient * (gate * s), left);
      }
    });
    return ok_status();
  });
}

MTL_REGISTER_CPU("bias_swiglu_forward", forward);
MTL_REGISTER_CPU("bias_swiglu_backward", backward);

}  // namespace
}  // namespace mtl

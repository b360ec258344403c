#include "backends/cpu/simd/simd.h"
#include "ops/bias_gelu.h"

namespace mtl {
namespace {

constexpr float kSqrt2OverPi = 0.7978845608028654f;
constexpr float kCubic = 0.044715f;
constexpr float kInverseSqrt2 = 0.7071067811865476f;
constexpr float kInverseSqrt2Pi = 0.3989422804014327f;

// 0.5 (1 + tanh u) = 1 / (1 + e^-2u): one exponential, and no cancellation in the tails.
MTL_INLINE VFloat negative_exponential(VFloat z) {
  return exponential(z * (-2.0f * kSqrt2OverPi - 2.0f * kSqrt2OverPi * kCubic * z * z));
}

template <bool kErf>
MTL_INLINE VFloat gelu(VFloat z) {
  if (kErf) return 0.5f * z * (1.0f + error_function(z * kInverseSqrt2));
  return z / (1.0f + negative_exponential(z));
}

template <bool kErf>
MTL_INLINE VFloat gelu_derivative(VFloat z) {
  if (kErf) {
    return 0.5f * (1.0f + error_function(z * kInverseSqrt2)) + z * kInverseSqrt2Pi * exponential(-0.5f * z * z);
  }
  const VFloat e = negative_exponential(z);
  const VFloat s = 1.0f / (1.0f + e);
  // s + z s (1 - s) 2u', with 1 - s = e s. Below -12, s is 0 in float32, and z^3 must not overflow it; NaN
  // stays NaN.
  const VFloat limited = maximum(splat(-12.0f), z);
  return s + s * (e * s) * (limited * (2.0f * kSqrt2OverPi + 6.0f * kSqrt2OverPi * kCubic * limited * limited));
}

// out[row, f] = gelu(in + bias), or gradient[row, f] * gelu'(in + bias) when `gradient` is given.
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

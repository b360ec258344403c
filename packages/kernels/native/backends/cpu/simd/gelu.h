// GELU and its derivative, both for the tanh approximation and for the exact form with erf.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

constexpr float kSqrt2OverPi = 0.7978845608028654f;
constexpr float kCubic = 0.044715f;
constexpr float kInverseSqrt2 = 0.7071067811865476f;
constexpr float kInverseSqrt2Pi = 0.3989422804014327f;

// Returns `e^-2u`, where u is the argument of the tanh. Because `0.5 * (1 + tanh(u)) = 1 / (1 + e^-2u)`, a
// single exponential suffices, without cancellation in the tails.
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
  // the derivative is `s + z * s * (1 - s) * 2u'`, where `1 - s = e * s`; below -12, s is 0 in float32, and
  // limiting z prevents an overflow of z^3; NaN stays NaN
  const VFloat limited = maximum(splat(-12.0f), z);
  return s + s * (e * s) * (limited * (2.0f * kSqrt2OverPi + 6.0f * kSqrt2OverPi * kCubic * limited * limited));
}

}  // namespace
}  // namespace mtl

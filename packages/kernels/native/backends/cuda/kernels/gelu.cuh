// GELU and its derivative: the approximation with tanh, and the exact form with erf.
#pragma once

#include "backends/cuda/kernels/values.h"

namespace mtl::cuda {

constexpr float kSqrt2OverPi = 0.7978845608028654f;
constexpr float kCubic = 0.044715f;
constexpr float kInverseSqrt2 = 0.7071067811865476f;
constexpr float kInverseSqrt2Pi = 0.3989422804014327f;

// Returns e^-2u. Since 0.5 (1 + tanh u) = 1 / (1 + e^-2u), a single exponential suffices, without
// cancellation in the tails.
template <typename T>
__device__ __forceinline__ float negative_exponential(float z) {
  return exponential<T>(z * (-2.0f * kSqrt2OverPi - 2.0f * kSqrt2OverPi * kCubic * z * z));
}

template <bool kErf, typename T>
__device__ __forceinline__ float gelu(float z) {
  if (kErf) return 0.5f * z * (1.0f + erff(z * kInverseSqrt2));
  return z / (1.0f + negative_exponential<T>(z));
}

template <bool kErf, typename T>
__device__ __forceinline__ float gelu_derivative(float z) {
  if (kErf) {
    return 0.5f * (1.0f + erff(z * kInverseSqrt2)) + z * kInverseSqrt2Pi * exponential<T>(-0.5f * z * z);
  }
  // Beyond 10 the derivative is 0 or 1 in float32. The limit keeps the exponential and z^3 from overflowing;
  // NaN stays NaN.
  const float limited = z < -10.0f ? -10.0f : z > 10.0f ? 10.0f : z;
  const float e = negative_exponential<T>(limited);
  const float s = 1.0f / (1.0f + e);
  // the derivative is s + z s (1 - s) 2u', with 1 - s = e s
  return s + s * (e * s) * (limited * (2.0f * kSqrt2OverPi + 6.0f * kSqrt2OverPi * kCubic * limited * limited));
}

}  // namespace mtl::cuda

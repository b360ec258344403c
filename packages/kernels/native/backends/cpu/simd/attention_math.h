// The transcendental functions of a softmax in base 2, and the soft cap of scores.
#pragma once

#include "backends/cpu/simd/hyperbolic_tangent.h"

namespace mtl {
namespace {

constexpr float kLog2E = 1.44269504088896341f;
constexpr float kLn2 = 0.69314718055994531f;

// Returns 2^x for x <= 127, or 0 if x is below -125. NaN stays NaN, so that an earlier overflow is not
// hidden. x is split into an integer and a remainder in [-1/2, 1/2]. A minimax polynomial (Remez) computes
// the power of the remainder, with a relative error of 7.5e-8 for float32, or 2.6e-6 if the result is rounded
// to bfloat16.
//
// kAllShown is true if no x comes from a hidden key. Results below 2^-125 that are rounded to bfloat16 may
// then be 2^-125 instead of 0.
template <bool kToBfloat16, bool kAllShown = false>
MTL_INLINE VFloat power_of_two(VFloat x) {
  // the limit keeps -infinity out of the subtraction, and keeps results normal: a processor takes more than a
  // hundred cycles to round a number below 2^-126, and without the limit, the scores of all hidden keys would
  // cause this
  const VFloat limited = maximum(splat(-125.0f), x);
  const Power integer = nearest_power(limited);
  const VFloat r = limited - integer.value;
  VFloat power;
  if (kToBfloat16) {
    power = splat(0.009570102015f);
    power = add_product(splat(0.05591786031f), power, r);
    power = add_product(splat(0.2402474482f), power, r);
    power = add_product(splat(0.6931218147f), power, r);
    power = add_product(splat(0.9999992614f), power, r);
  } else {
    power = splat(0.001327647217f);
    power = add_product(splat(0.009675541331f), power, r);
    power = add_product(splat(0.05550713273f), power, r);
    power = add_product(splat(0.2402211972f), power, r);
    power = add_product(splat(0.6931469671f), power, r);
    power = add_product(splat(1.000000072f), power, r);
  }
  if constexpr (kToBfloat16 && kAllShown) return times_power(power, integer);
  // this maximum is 0, or x if x is NaN
  return select(x >= -125.0f, times_power(power, integer), maximum(splat(0.0f), x));
}

// Returns ln(x) if x is normal and positive; NaN stays NaN. With `x = 2^n * m` and m in [sqrt(1/2), sqrt(2)),
// `ln(m) = 2 * artanh((m - 1) / (m + 1))`. In this range, five terms of the artanh series give an error of
// about 1e-9.
MTL_INLINE VFloat natural_logarithm(VFloat x) {
  const VUint offset = float_to_bits(x) - 0x3f3504f3u;  // the bits of sqrt(1/2)
  const VFloat exponent = __builtin_convertvector((VInt)offset >> 23, VFloat);
  const VFloat m = bits_to_float((offset & 0x007fffffu) + 0x3f3504f3u);
  const VFloat z = (m - 1.0f) / (m + 1.0f);
  const VFloat z2 = z * z;
  const VFloat series = 1.0f + z2 * (1.0f / 3 + z2 * (1.0f / 5 + z2 * (1.0f / 7 + z2 * (1.0f / 9))));
  return select(x == x, exponent * kLn2 + 2.0f * z * series, x);
}

// The factor by which the dot products of a head's queries and keys are multiplied, and the soft cap of the
// scores (0 means no cap).
struct ScoreScale {
  float factor, cap;

  // Returns the factor that converts the scores in memory to base 2. If the scores are soft-capped, `factor`
  // has already been applied.
  MTL_INLINE float to_base_two(const ScoreScale& v) { return (v.cap == 0.0f ? v.factor : 1.0f) * kLog2E; }
};

// Multiplies a row of dot products by their factor and soft-caps the scores: `cap * tanh(score / cap)`.
MTL_INLINE void cap_scores(float* scores, int64_t vectors, const ScoreScale& scale) {
  const float inner = scale.factor / scale.cap;
  for (int64_t vector = 0; vector < vectors; ++vector) {
    store(scores + vector * kLanes, hyperbolic_tangent(load(scores + vector * kLanes) * inner) * scale.cap);
  }
}

}  // namespace
}  // namespace mtl

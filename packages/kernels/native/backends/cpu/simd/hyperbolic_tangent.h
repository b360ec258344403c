#pragma once

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

// Returns `tanh(x)` with a relative error below 3e-7 for every x. NaN stays NaN. With `t = 2 * |x| / ln(2)`
// and `e = 2^t - 1`, `tanh(|x|) = e / (e + 2)`. t is split into an integer n and a remainder r in [-1/2,
// 1/2], so that `e = 2^n * (2^r - 1) + (2^n - 1)`. `2^r - 1` is r times a minimax polynomial (Remez) with a
// relative error of 1.1e-8. No step subtracts nearly equal numbers, so the results for small x are also
// accurate.
MTL_INLINE VFloat hyperbolic_tangent(VFloat x) {
  constexpr uint32_t kSign = 0x80000000u;
  const VFloat magnitude = bits_to_float(float_to_bits(x) & ~kSign);
  const VFloat t = minimum(splat(30.0f), magnitude * 2.88539008f);  // tanh is 1 from t = 26 on; NaN stays
  const VFloat magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to the nearest integer
  const VFloat shifted = t + magic;
  const VFloat r = t - (shifted - magic);
  VFloat p = splat(0.00015403512f);
  p = p * r + 0.0013390735f;
  p = p * r + 0.0096182376f;
  p = p * r + 0.0555035733f;
  p = p * r + 0.2402264923f;
  p = p * r + 0.6931471825f;
  const VUint exponent = (float_to_bits(shifted) - float_to_bits(magic)) << 23;  // n, in the exponent field
  const VFloat power = bits_to_float(exponent + 0x3f800000u);                     // 2^n
  const VFloat e = power * (p * r) + (power - 1.0f);
  const VFloat result = bits_to_float(float_to_bits(e / (e + 2.0f)) | (float_to_bits(x) & kSign));
  return select(x == x, result, x);
}

}  // namespace
}  // namespace mtl

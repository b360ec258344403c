// The vectors of AVX-512 (F, BW, VL, DQ) with instructions that multiply bfloat16 pairs (BF16). avx512.h and
// the instruction sets that extend it use this file.
#pragma once

#include <immintrin.h>

namespace mtl {
namespace {
constexpr int kLanes = 16;
}
}  // namespace mtl

#include "backends/cpu/isa/portable.h"
#include "backends/cpu/isa/tiles.h"

namespace mtl {
namespace {

constexpr bool kHasBfloat16Pairs = true;

// for 32 vector registers
constexpr int kMatmulRows = 8, kMatmulVectors = 3;
constexpr int kAttentionVectors = 4;
constexpr int64_t kMostRowsInPlace = 32;

MTL_INLINE VUint widen(VHalf half) { return (VUint)_mm512_cvtepu16_epi32((__m256i)half); }
MTL_INLINE VHalf narrow(VUint value) { return (VHalf)_mm512_cvtepi32_epi16((__m512i)value); }
// Flushes magnitudes below 2^-126 to zero, because this takes one instruction instead of eight. Training does
// not need such small values: AdamW's epsilon makes gradients of this size negligible.
MTL_INLINE VHalf to_bfloat16(VFloat value) { return (VHalf)_mm512_cvtneps_pbh((__m512)value); }
MTL_INLINE VFloat from_float16(VHalf half) { return (VFloat)_mm512_cvtph_ps((__m256i)half); }
MTL_INLINE VHalf to_float16(VFloat value) {
  return (VHalf)_mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

MTL_INLINE VFloat maximum(VFloat a, VFloat b) { return (VFloat)_mm512_max_ps((__m512)a, (__m512)b); }
MTL_INLINE VFloat minimum(VFloat a, VFloat b) { return (VFloat)_mm512_min_ps((__m512)a, (__m512)b); }
using portable::add_product;
MTL_INLINE VFloat square_root(VFloat value) { return (VFloat)_mm512_sqrt_ps((__m512)value); }

struct Power {
  VFloat value;
};
MTL_INLINE Power nearest_power(VFloat x) {
  return {(VFloat)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
MTL_INLINE VFloat times_power(VFloat x, const Power& n) {
  return (VFloat)_mm512_scalef_ps((__m512)x, (__m512)n.value);
}

MTL_INLINE float sum(VFloat value) { return _mm512_reduce_add_ps((__m512)value); }
MTL_INLINE float largest(VFloat value) { return _mm512_reduce_max_ps((__m512)value); }
MTL_INLINE uint32_t bits_of_mask(VInt mask) { return _mm512_movepi32_mask((__m512i)mask); }

MTL_INLINE void multiply_wide(VUint a, uint32_t b, VUint* low, VUint* high) {
  const __m512i factor = _mm512_set1_epi32(static_cast<int>(b));
  const __m512i even = _mm512_mul_epu32((__m512i)a, factor);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), factor);
  *high = (VUint)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  *low = a * b;
}
MTL_INLINE VLong multiply_low_words(VLong a, uint32_t b) {
  return (VLong)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
}

MTL_INLINE VUint load_pairs(const bfloat16* source, int64_t count) {
  return (VUint)_mm512_maskz_loadu_epi16((uint32_t{1} << (count < 0 ? 0 : count)) - 1, source);
}
MTL_INLINE VUint to_bfloat16_words(VFloat first, VFloat second) {
  return (VUint)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
}
MTL_INLINE VUint interleave_halves(VUint words) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return (VUint)_mm512_permutexvar_epi16(order, (__m512i)words);
}
MTL_INLINE VFloat add_pair_products(VFloat sums, VUint left, VUint right) {
  return (VFloat)_mm512_dpbf16_ps((__m512)sums, (__m512bh)left, (__m512bh)right);
}

}  // namespace
}  // namespace mtl

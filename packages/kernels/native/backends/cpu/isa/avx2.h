// AVX2 with fused multiply-add (FMA) and float16 conversion (F16C).
#pragma once

#include <immintrin.h>

namespace mtl {
namespace {
constexpr int kLanes = 8;
}
}  // namespace mtl

#include "backends/cpu/isa/portable.h"
#include "backends/cpu/isa/tiles.h"

namespace mtl {
namespace {

constexpr bool kHasBfloat16Pairs = false;
using Tiles = NoTiles;

// for 16 vector registers
constexpr int kMatmulRows = 4, kMatmulVectors = 3;
constexpr int kAttentionVectors = 2;
constexpr int64_t kMostRowsInPlace = 0;

MTL_INLINE VUint widen(VHalf half) { return (VUint)_mm256_cvtepu16_epi32((__m128i)half); }
MTL_INLINE VHalf narrow(VUint value) {
  const __m256i packed = _mm256_packus_epi32((__m256i)value, (__m256i)value);
  return (VHalf)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}
MTL_INLINE VHalf to_bfloat16(VFloat value) { return narrow(portable::bfloat16_bits(value)); }
MTL_INLINE VFloat from_float16(VHalf half) { return (VFloat)_mm256_cvtph_ps((__m128i)half); }
MTL_INLINE VHalf to_float16(VFloat value) {
  return (VHalf)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

MTL_INLINE VFloat maximum(VFloat a, VFloat b) { return (VFloat)_mm256_max_ps((__m256)a, (__m256)b); }
MTL_INLINE VFloat minimum(VFloat a, VFloat b) { return (VFloat)_mm256_min_ps((__m256)a, (__m256)b); }
using portable::add_product;
MTL_INLINE VFloat square_root(VFloat value) { return (VFloat)_mm256_sqrt_ps((__m256)value); }
using portable::Power;
using portable::nearest_power;
using portable::times_power;

using portable::sum;
using portable::largest;
MTL_INLINE uint32_t bits_of_mask(VInt mask) { return static_cast<uint32_t>(_mm256_movemask_ps((__m256)mask)); }

MTL_INLINE void multiply_wide(VUint a, uint32_t b, VUint* low, VUint* high) {
  const __m256i factor = _mm256_set1_epi32(static_cast<int>(b));
  const __m256i even = _mm256_mul_epu32((__m256i)a, factor);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), factor);
  *high = (VUint)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  *low = a * b;
}
MTL_INLINE VLong multiply_low_words(VLong a, uint32_t b) {
  return (VLong)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
}

using portable::load_pairs;
using portable::to_bfloat16_words;
using portable::interleave_halves;
using portable::add_pair_products;

}  // namespace
}  // namespace mtl

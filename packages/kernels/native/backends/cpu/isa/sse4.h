// SSE4.1: 128-bit vectors without fused multiply-add, for processors and virtual machines of x86-64-v2. The
// results are bit for bit the same as with plain vectors.
#pragma once

#include <smmintrin.h>

namespace mtl {
namespace {
constexpr int kLanes = 4;
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

MTL_INLINE VUint widen(VHalf half) {
  return (VUint)_mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(&half)));
}
MTL_INLINE VHalf narrow(VUint value) {
  VHalf half;
  _mm_storel_epi64(reinterpret_cast<__m128i*>(&half), _mm_packus_epi32((__m128i)value, (__m128i)value));
  return half;
}
MTL_INLINE VHalf to_bfloat16(VFloat value) { return narrow(portable::bfloat16_bits(value)); }
using portable::from_float16;
using portable::to_float16;

MTL_INLINE VFloat maximum(VFloat a, VFloat b) { return (VFloat)_mm_max_ps((__m128)a, (__m128)b); }
MTL_INLINE VFloat minimum(VFloat a, VFloat b) { return (VFloat)_mm_min_ps((__m128)a, (__m128)b); }
using portable::add_product;
MTL_INLINE VFloat square_root(VFloat value) { return (VFloat)_mm_sqrt_ps((__m128)value); }
using portable::Power;
using portable::nearest_power;
using portable::times_power;

using portable::sum;
using portable::largest;
MTL_INLINE uint32_t bits_of_mask(VInt mask) { return static_cast<uint32_t>(_mm_movemask_ps((__m128)mask)); }

MTL_INLINE void multiply_wide(VUint a, uint32_t b, VUint* low, VUint* high) {
  const __m128i factor = _mm_set1_epi32(static_cast<int>(b));
  const __m128i even = _mm_mul_epu32((__m128i)a, factor);
  const __m128i odd = _mm_mul_epu32(_mm_srli_epi64((__m128i)a, 32), factor);
  *high = (VUint)_mm_blend_epi16(_mm_srli_epi64(even, 32), odd, 0xCC);
  *low = a * b;
}
MTL_INLINE VLong multiply_low_words(VLong a, uint32_t b) {
  return (VLong)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(b));
}

using portable::load_pairs;
using portable::to_bfloat16_words;
using portable::interleave_halves;
using portable::add_pair_products;

}  // namespace
}  // namespace mtl

// WebAssembly's 128-bit vectors, without fused multiply-add. On every machine, the results are bit for bit
// the same as with plain vectors.
#pragma once

#include <wasm_simd128.h>

namespace mtl {
namespace {
constexpr int kLanes = 4;
}
}  // namespace mtl

#include "backends/cpu/isa/portable.h"
#include "backends/cpu/isa/tiles.h"
#include "core/philox.h"

namespace mtl {
namespace {

constexpr bool kHasBfloat16Pairs = false;
using Tiles = NoTiles;

// these sizes suit 16 vector registers, which WebAssembly engines have on x86-64
constexpr int kMatmulRows = 4, kMatmulVectors = 2;
constexpr int kAttentionVectors = 2;
constexpr int64_t kMostRowsInPlace = 0;

MTL_INLINE VUint splat_word(uint32_t word) { return (VUint)wasm_i32x4_splat(static_cast<int32_t>(word)); }

MTL_INLINE VUint widen(VHalf half) {
  return (VUint)wasm_u32x4_extend_low_u16x8(wasm_v128_load64_zero(&half));
}
MTL_INLINE VHalf narrow(VUint value) {
  VHalf half;
  wasm_v128_store64_lane(&half, wasm_u16x8_narrow_i32x4((v128_t)value, (v128_t)value), 0);
  return half;
}
MTL_INLINE VHalf to_bfloat16(VFloat value) { return narrow(portable::bfloat16_bits(value)); }

MTL_INLINE VFloat from_float16(VHalf half) {
  const VUint bits = widen(half), magnitude = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
  // changes the exponent's bias from 15 to 127, which is exact even for numbers below 2^-14
  const VUint number = float_to_bits(bits_to_float(magnitude) * 0x1p112f);
  const VUint infinity = splat_word(0x0f800000u);
  const VUint special = magnitude | 0x7f800000u | ((VUint)(magnitude > infinity) & 0x400000u);  // NaN becomes quiet
  return bits_to_float((magnitude >= infinity ? special : number) | sign);
}
MTL_INLINE VHalf to_float16(VFloat value) {
  const VUint bits = float_to_bits(value), magnitude = bits & 0x7fffffffu, sign = (bits >> 16) & 0x8000u;
  const VUint odd = (magnitude >> 13) & 1u;
  const VUint normal = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;  // to nearest, ties to even
  // for numbers below 2^-14: adding 0.5 rounds to a multiple of 2^-24
  const VUint small = float_to_bits(bits_to_float(magnitude) + 0.5f) - 0x3f000000u;
  const VUint nan = ((magnitude >> 13) & 0x3ffu) | 0x7e00u;
  const VUint large = magnitude > splat_word(0x7f800000u) ? nan : splat_word(0x7c00u);
  const VUint finite = magnitude < splat_word(0x38800000u) ? small : normal;
  return narrow((magnitude >= splat_word(0x47800000u) ? large : finite) | sign);
}

// if either operand is NaN, pmax and pmin return their first operand
MTL_INLINE VFloat maximum(VFloat a, VFloat b) { return (VFloat)wasm_f32x4_pmax((v128_t)b, (v128_t)a); }
MTL_INLINE VFloat minimum(VFloat a, VFloat b) { return (VFloat)wasm_f32x4_pmin((v128_t)b, (v128_t)a); }
MTL_INLINE VFloat square_root(VFloat value) { return (VFloat)wasm_f32x4_sqrt((v128_t)value); }
using portable::Power;
using portable::nearest_power;
using portable::times_power;

using portable::sum;
using portable::largest;
MTL_INLINE uint32_t bits_of_mask(VInt mask) { return static_cast<uint32_t>(wasm_i32x4_bitmask((v128_t)mask)); }

constexpr uint32_t kFirst = kPhiloxMultiplier0, kSecond = kPhiloxMultiplier1;
alignas(16) const uint32_t kFactors[2][4] = {{kFirst, kFirst, kFirst, kFirst}, {kSecond, kSecond, kSecond, kSecond}};

// Hides the factors of Philox from the compiler. If clang 19 sees a constant factor, it replaces 32-bit
// products by 64-bit products, for which engines on x86-64 need nine instructions.
MTL_INLINE v128_t splat_factor(uint32_t factor) {
  if (factor != kFirst && factor != kSecond) return wasm_i32x4_splat(static_cast<int32_t>(factor));
  const uint32_t* words = kFactors[factor == kSecond];
  __asm__("" : "+r"(words));
  return wasm_v128_load(words);
}

MTL_INLINE void multiply_wide(VUint a, uint32_t b, VUint* low, VUint* high) {
  const v128_t factor = splat_factor(b);
  const v128_t first = wasm_u64x2_extmul_low_u32x4((v128_t)a, factor);
  const v128_t last = wasm_u64x2_extmul_high_u32x4((v128_t)a, factor);
  *low = (VUint)wasm_i32x4_shuffle(first, last, 0, 2, 4, 6);
  *high = (VUint)wasm_i32x4_shuffle(first, last, 1, 3, 5, 7);
}
MTL_INLINE VLong multiply_low_words(VLong a, uint32_t b) {
  const v128_t words = wasm_i32x4_shuffle((v128_t)a, (v128_t)a, 0, 2, 0, 2);
  return (VLong)wasm_u64x2_extmul_low_u32x4(words, splat_factor(b));
}

using portable::load_pairs;
using portable::to_bfloat16_words;
using portable::interleave_halves;
using portable::add_pair_products;

}  // namespace
}  // namespace mtl

// The functions of an instruction set (see isa.h), written with the compiler's vector extensions for any
// number of lanes and any processor. If an instruction set has no faster instructions for a function, it uses
// this file's function through a using-declaration.
#pragma once

#include <math.h>

#include "backends/cpu/isa/vectors.h"
#include "core/half.h"

namespace mtl {
namespace {
namespace portable {

// ---- 16-bit numbers ----

MTL_INLINE VUint widen(VHalf half) { return __builtin_convertvector(half, VUint); }
MTL_INLINE VHalf narrow(VUint value) { return __builtin_convertvector(value, VHalf); }

// Returns the bits of bfloat16 values as 32-bit integers. This is to_bfloat16 without `narrow`.
MTL_INLINE VUint bfloat16_bits(VFloat value) {
  const VUint bits = float_to_bits(value);
  const VUint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const VUint quiet = (bits >> 16) | 0x40u;
  return value != value ? quiet : rounded;
}
MTL_INLINE VHalf to_bfloat16(VFloat value) { return narrow(bfloat16_bits(value)); }

MTL_INLINE VFloat from_float16(VHalf half) {
  VFloat value;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint16_t bits = half[lane];
    Half number;
    __builtin_memcpy(&number, &bits, sizeof bits);
    value[lane] = (float)number;
  }
  return value;
}
MTL_INLINE VHalf to_float16(VFloat value) {
  VHalf half;
  for (int lane = 0; lane < kLanes; ++lane) {
    const Half number = (Half)value[lane];
    uint16_t bits;
    __builtin_memcpy(&bits, &number, sizeof bits);
    half[lane] = bits;
  }
  return half;
}

// ---- arithmetic ----

MTL_INLINE VFloat maximum(VFloat a, VFloat b) { return a > b ? a : b; }
MTL_INLINE VFloat minimum(VFloat a, VFloat b) { return a < b ? a : b; }

// Compilers make a fused operation of the product and the sum where the processor has one.
MTL_INLINE VFloat add_product(VFloat sum, VFloat a, VFloat b) { return a * b + sum; }

MTL_INLINE VFloat square_root(VFloat value) {
  for (int lane = 0; lane < kLanes; ++lane) value[lane] = sqrtf(value[lane]);
  return value;
}

struct Power {
  VFloat value;
  VUint bits;  // in the exponent field of a number
};

MTL_INLINE Power nearest_power(VFloat x) {
  const VFloat magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to the nearest integer
  const VFloat shifted = x + magic;
  return {shifted - magic, (float_to_bits(shifted) - float_to_bits(magic)) << 23};
}
MTL_INLINE VFloat times_power(VFloat x, const Power& n) { return bits_to_float(float_to_bits(x) + n.bits); }

// ---- all lanes of a vector ----

MTL_INLINE float sum(VFloat value) {
  float lanes[kLanes];
  *reinterpret_cast<VFloatU*>(lanes) = value;
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

MTL_INLINE float largest(VFloat value) {
  float result = value[0];
  for (int lane = 1; lane < kLanes; ++lane) result = value[lane] > result ? value[lane] : result;
  return result;
}

MTL_INLINE uint32_t bits_of_mask(VInt mask) {
  uint32_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) bits |= static_cast<uint32_t>(mask[lane] & 1) << lane;
  return bits;
}

// ---- integers ----

MTL_INLINE void multiply_wide(VUint a, uint32_t b, VUint* low, VUint* high) {
  typedef uint64_t VWide __attribute__((vector_size(kLanes * 8)));
  const VWide product = __builtin_convertvector(a, VWide) * b;
  *low = __builtin_convertvector(product, VUint);
  *high = __builtin_convertvector(product >> 32, VUint);
}

MTL_INLINE VLong multiply_low_words(VLong a, uint32_t b) { return (a & 0xffffffffu) * b; }

// ---- pairs of bfloat16 ----

MTL_INLINE VUint load_pairs(const bfloat16* source, int64_t count) {
  VUint words = {};
  for (int64_t i = 0; i < count; ++i) words[i / 2] |= static_cast<uint32_t>(source[i].bits) << (i % 2 * 16);
  return words;
}

MTL_INLINE VUint to_bfloat16_words(VFloat first, VFloat second) {
  const VHalf halves[2] = {to_bfloat16(first), to_bfloat16(second)};
  return *reinterpret_cast<const VUintU*>(halves);
}

MTL_INLINE VUint interleave_halves(VUint words) {
  const VHalfU* halves = reinterpret_cast<const VHalfU*>(&words);
  return widen(halves[0]) | widen(halves[1]) << 16;
}

MTL_INLINE VFloat add_pair_products(VFloat sums, VUint left, VUint right) {
  sums += bits_to_float(left << 16) * bits_to_float(right << 16);
  return sums + bits_to_float(left & 0xffff0000u) * bits_to_float(right & 0xffff0000u);
}

}  // namespace portable
}  // namespace
}  // namespace mtl

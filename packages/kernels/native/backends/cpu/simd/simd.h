// Vectors of the instruction set that this file is compiled for (MTL_ISA_LEVEL: 0 plain, 1 AVX2, 2 AVX-512
// with bf16), built on the compiler's vector extensions, so that one source serves all instruction sets.
//
// Everything is in an anonymous namespace, and nothing here may instantiate inline functions or templates of
// the standard library: the linker would keep one copy for all instruction sets, and an old CPU would run the
// AVX-512 copy (tooling/checks looks for such symbols).
#pragma once

#include <stdint.h>
#if MTL_ISA_LEVEL > 0
#include <immintrin.h>
#endif

#include "backends/cpu/instruction_sets.h"
#include "backends/cpu/threads.h"
#include "core/op_registry.h"

// MTL_REGISTER_CPU(op, kernel) or, for a kernel with scratch memory, MTL_REGISTER_CPU(op, kernel, scratch).
#define MTL_REGISTER_CPU(op, ...)                                                                           \
  static const ::mtl::CpuKernelRegistration MTL_CONCATENATE(cpu_registration_, __LINE__)(                   \
      op, ::mtl::find_instruction_set(MTL_STRINGIFY(MTL_ISA)), __VA_ARGS__)

namespace mtl {
namespace {

#if MTL_ISA_LEVEL == 2 || defined(MTL_EMULATE_AMX)
#define MTL_SIXTEEN_LANES
constexpr int kLanes = 16;  // as the tiles of AMX have
#elif MTL_ISA_LEVEL == 1
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float VFloat __attribute__((vector_size(kLanes * 4)));
typedef int32_t VInt __attribute__((vector_size(kLanes * 4)));
typedef uint32_t VUint __attribute__((vector_size(kLanes * 4)));
typedef uint16_t VHalf __attribute__((vector_size(kLanes * 2)));
// The same vector types without an alignment requirement, for loads and stores.
typedef float VFloatU __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef uint32_t VUintU __attribute__((vector_size(kLanes * 4), aligned(2), may_alias));  // pairs of bfloat16, too
typedef uint16_t VHalfU __attribute__((vector_size(kLanes * 2), aligned(2), may_alias));

MTL_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
MTL_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
MTL_INLINE int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
MTL_INLINE int64_t round_up(int64_t a, int64_t multiple) { return divide_up(a, multiple) * multiple; }

struct float16 {
  uint16_t bits;
};

MTL_INLINE VFloat splat(float value) { return value - VFloat{}; }
MTL_INLINE VFloat bits_to_float(VUint bits) { return (VFloat)bits; }
MTL_INLINE VUint float_to_bits(VFloat value) { return (VUint)value; }

// ---- loads and stores of float, bfloat16 and float16, as float vectors ----

MTL_INLINE VFloat load(const float* source) { return *reinterpret_cast<const VFloatU*>(source); }

// 16-bit lanes are converted to 32 bits and back with intrinsics: GCC 12 splits convertvector into half
// vectors, which made every bfloat16 kernel two to three times slower.
MTL_INLINE VUint widen(VHalf half) {
#if MTL_ISA_LEVEL == 2
  return (VUint)_mm512_cvtepu16_epi32((__m256i)half);
#elif MTL_ISA_LEVEL == 1
  return (VUint)_mm256_cvtepu16_epi32((__m128i)half);
#else
  return __builtin_convertvector(half, VUint);
#endif
}

// Returns the lower halves of the lanes, whose values must be below 2^16.
MTL_INLINE VHalf narrow(VUint value) {
#if MTL_ISA_LEVEL == 2
  return (VHalf)_mm512_cvtepi32_epi16((__m512i)value);
#elif MTL_ISA_LEVEL == 1
  const __m256i packed = _mm256_packus_epi32((__m256i)value, (__m256i)value);
  return (VHalf)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
#else
  return __builtin_convertvector(value, VHalf);
#endif
}

MTL_INLINE VFloat load(const bfloat16* source) {
  return bits_to_float(widen(*reinterpret_cast<const VHalfU*>(source)) << 16);
}

MTL_INLINE VFloat load(const float16* source) {
#if MTL_ISA_LEVEL == 2
  return (VFloat)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
#elif MTL_ISA_LEVEL == 1
  return (VFloat)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
#else
  VFloat value;
  for (int lane = 0; lane < kLanes; ++lane) value[lane] = (float)reinterpret_cast<const _Float16*>(source)[lane];
  return value;
#endif
}

MTL_INLINE void store(float* destination, VFloat value) { *reinterpret_cast<VFloatU*>(destination) = value; }

// Rounds to nearest, ties to even. NaN stays NaN: its lowest mantissa bits are dropped, and the quiet bit is
// set. AVX-512's own conversion does the same, except that it flushes magnitudes below 2^-126 to zero.
// Training does not need such values (AdamW's epsilon hides gradients of this size anyway), and one
// instruction replaces eight.
MTL_INLINE VHalf to_bfloat16(VFloat value) {
#if MTL_ISA_LEVEL == 2
  return (VHalf)_mm512_cvtneps_pbh((__m512)value);
#else
  const VUint bits = float_to_bits(value);
  const VUint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const VUint quiet = (bits >> 16) | 0x40u;
  return narrow((VUint)(value != value ? (VUint)quiet : (VUint)rounded));
#endif
}

MTL_INLINE void store(bfloat16* destination, VFloat value) {
  *reinterpret_cast<VHalfU*>(destination) = to_bfloat16(value);
}

MTL_INLINE void store(float16* destination, VFloat value) {
#if MTL_ISA_LEVEL == 2
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination),
                      _mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif MTL_ISA_LEVEL == 1
  _mm_storeu_si128(reinterpret_cast<__m128i*>(destination),
                   _mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
  for (int lane = 0; lane < kLanes; ++lane) reinterpret_cast<_Float16*>(destination)[lane] = (_Float16)value[lane];
#endif
}

MTL_INLINE float load_one(const float* source) { return *source; }
MTL_INLINE float load_one(const bfloat16* source) {
  union {
    uint32_t bits;
    float value;
  } both = {static_cast<uint32_t>(source->bits) << 16};
  return both.value;
}
MTL_INLINE float load_one(const float16* source) { return (float)*reinterpret_cast<const _Float16*>(source); }
MTL_INLINE void store_one(float* destination, float value) { *destination = value; }
MTL_INLINE void store_one(bfloat16* destination, float value) { destination->bits = to_bfloat16(splat(value))[0]; }
MTL_INLINE void store_one(float16* destination, float value) {
  *reinterpret_cast<_Float16*>(destination) = (_Float16)value;
}

// Loads the first `count` lanes (0 to kLanes); the other lanes are zero.
template <typename T>
MTL_INLINE VFloat load_partial(const T* source, int64_t count) {
  VFloat value = {};
  for (int lane = 0; lane < count; ++lane) value[lane] = load_one(source + lane);
  return value;
}

template <typename T>
MTL_INLINE void store_partial(T* destination, VFloat value, int64_t count) {
  for (int lane = 0; lane < count; ++lane) store_one(destination + lane, value[lane]);
}

// Loads a whole vector, or the remainder of a row: `count` may be any number above zero.
template <typename T>
MTL_INLINE VFloat load_up_to(const T* source, int64_t count) {
  return __builtin_expect(count >= kLanes, 1) ? load(source) : load_partial(source, count);
}

template <typename T>
MTL_INLINE void store_up_to(T* destination, VFloat value, int64_t count) {
  if (__builtin_expect(count >= kLanes, 1)) {
    store(destination, value);
  } else {
    store_partial(destination, value, count);
  }
}

// Calls body(i, number of elements from i on) for the first element i of each vector, on several threads.
template <typename Body>
MTL_INLINE void for_each_vector(int64_t size, const Body& body) {
  for_each(divide_up(size, kLanes), size, [&](int64_t vector) { body(vector * kLanes, size - vector * kLanes); });
}

// ---- arithmetic ----

// Returns the larger (or for `minimum` the smaller) operand, or the second one if either is NaN. One
// instruction; for `?:` the compiler emits a comparison and a blend.
#if MTL_ISA_LEVEL == 2
MTL_INLINE VFloat maximum(VFloat a, VFloat b) { return (VFloat)_mm512_max_ps((__m512)a, (__m512)b); }
MTL_INLINE VFloat minimum(VFloat a, VFloat b) { return (VFloat)_mm512_min_ps((__m512)a, (__m512)b); }
#elif MTL_ISA_LEVEL == 1
MTL_INLINE VFloat maximum(VFloat a, VFloat b) { return (VFloat)_mm256_max_ps((__m256)a, (__m256)b); }
MTL_INLINE VFloat minimum(VFloat a, VFloat b) { return (VFloat)_mm256_min_ps((__m256)a, (__m256)b); }
#else
MTL_INLINE VFloat maximum(VFloat a, VFloat b) { return a > b ? a : b; }
MTL_INLINE VFloat minimum(VFloat a, VFloat b) { return a < b ? a : b; }
#endif
MTL_INLINE VFloat select(VInt mask, VFloat yes, VFloat no) { return mask ? yes : no; }

// Returns the sum of the lanes, added in a fixed tree, so that the result depends only on the lanes.
MTL_INLINE float sum(VFloat value) {
  float lanes[kLanes];
  store(lanes, value);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

MTL_INLINE float maximum_of(VFloat value) {
  float result = value[0];
  for (int lane = 1; lane < kLanes; ++lane) result = value[lane] > result ? value[lane] : result;
  return result;
}

// Returns e^x to 2 units in the last place for x in [-87.3, 88.7]; nearly 0 below this range, and about the
// largest finite value above it. NaN stays NaN (maximum and minimum return their second operand), so that bad
// logits show in the loss. Reduces the range by ln 2 in two parts, then evaluates a polynomial of degree 6 on
// [-ln2/2, ln2/2].
MTL_INLINE VFloat exponential(VFloat x) {
#if MTL_ISA_LEVEL == 2
  // -104 is the lower limit: e^-104 rounds to 0, and the finite limit keeps -infinity from becoming infinity
  // - infinity.
  const VFloat clamped = minimum(splat(88.7f), maximum(splat(-104.0f), x));
  const VFloat n = (VFloat)_mm512_roundscale_ps((__m512)(clamped * 1.44269504088896341f), 0x08);  // to nearest
#else
  const VFloat clamped = minimum(splat(88.7f), maximum(splat(-87.3f), x));
  const VFloat magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to the nearest integer
  const VFloat shifted = clamped * 1.44269504088896341f + magic;
  const VFloat n = shifted - magic;
#endif
  const VFloat r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  VFloat p = splat(1.0f / 720);
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
#if MTL_ISA_LEVEL == 2
  return (VFloat)_mm512_scalef_ps((__m512)p, (__m512)n);  // p 2^n, with gradual underflow
#else
  const VUint exponent = (float_to_bits(shifted) - float_to_bits(magic)) << 23;  // n, moved to the exponent field
  const VFloat result = bits_to_float(float_to_bits(p) + exponent);
  return select(x < -87.3f, splat(0.0f), result);
#endif
}

// Returns erf x within 1.5e-7 (Abramowitz and Stegun 7.1.26); below 0.3, where this error bound is too loose,
// by the Taylor series.
MTL_INLINE VFloat error_function(VFloat x) {
  const VFloat magnitude = bits_to_float(float_to_bits(x) & 0x7fffffffu);
  const VFloat t = 1.0f / (1.0f + 0.3275911f * magnitude);
  VFloat p = splat(1.061405429f);
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const VFloat positive = 1.0f - p * t * exponential(-magnitude * magnitude);
  const VFloat far = bits_to_float(float_to_bits(positive) | (float_to_bits(x) & 0x80000000u));
  const VFloat x2 = x * x;
  const VFloat series = 1.0f + x2 * (-1.0f / 3 + x2 * (0.1f + x2 * (-1.0f / 42 + x2 * (1.0f / 216))));
  return select(magnitude < 0.3f, x * 1.1283791670955126f * series, far);
}

// Calls `body` with a null pointer to the C++ type of `dtype`: float, bfloat16 or float16.
template <typename Body>
MTL_INLINE Status for_floating(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(static_cast<float*>(nullptr));
    case DType::kBFloat16:
      return body(static_cast<bfloat16*>(nullptr));
    case DType::kFloat16:
      return body(static_cast<float16*>(nullptr));
    default:
      return error_status("MTL_DTYPE", "%s is computed on the reference device only", name_of(dtype));
  }
}

}  // namespace
}  // namespace mtl

// Loads and stores for every dtype, and functions on vectors. All CPU kernels use this file. It is built on
// the constants and functions of an instruction set (see isa/isa.h).
#pragma once

#include <stdint.h>

#include "backends/cpu/instruction_sets.h"
#include "backends/cpu/isa/isa.h"
#include "backends/cpu/threads.h"
#include "core/op_registry.h"

// Registers a kernel: MTL_REGISTER_CPU(op, kernel) or, for a kernel with scratch memory, MTL_REGISTER_CPU(op,
// kernel, scratch).
#define MTL_REGISTER_CPU(op, ...)                                                                           \
  static const ::mtl::CpuKernelRegistration MTL_CONCATENATE(cpu_registration_, __LINE__)(                   \
      op, ::mtl::find_instruction_set(MTL_STRINGIFY(MTL_ISA)), __VA_ARGS__)

namespace mtl {
namespace {

MTL_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
MTL_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
MTL_INLINE int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
MTL_INLINE int64_t round_up(int64_t a, int64_t multiple) { return divide_up(a, multiple) * multiple; }

struct float16 {
  uint16_t bits;
};

// ---- loads and stores of float, bfloat16 and float16 as float vectors ----

MTL_INLINE VFloat load(const float* source) { return *reinterpret_cast<const VFloatU*>(source); }

MTL_INLINE VFloat load(const bfloat16* source) {
  return bits_to_float(widen(*reinterpret_cast<const VHalfU*>(source)) << 16);
}

MTL_INLINE VFloat load(const float16* source) { return from_float16(*reinterpret_cast<const VHalfU*>(source)); }

MTL_INLINE void store(float* destination, VFloat value) { *reinterpret_cast<VFloatU*>(destination) = value; }

MTL_INLINE void store(bfloat16* destination, VFloat value) {
  *reinterpret_cast<VHalfU*>(destination) = to_bfloat16(value);
}

MTL_INLINE void store(float16* destination, VFloat value) {
  *reinterpret_cast<VHalfU*>(destination) = to_float16(value);
}

MTL_INLINE float load_one(const float* source) { return *source; }
MTL_INLINE float load_one(const bfloat16* source) {
  union {
    uint32_t bits;
    float value;
  } both = {static_cast<uint32_t>(source->bits) << 16};
  return both.value;
}
MTL_INLINE float load_one(const float16* source) { return (float)*reinterpret_cast<const Half*>(source); }
MTL_INLINE void store_one(float* destination, float value) { *destination = value; }
MTL_INLINE void store_one(bfloat16* destination, float value) { destination->bits = to_bfloat16(splat(value))[0]; }
MTL_INLINE void store_one(float16* destination, float value) {
  *reinterpret_cast<Half*>(destination) = (Half)value;
}

// Loads the first `count` lanes (0 to kLanes). The remaining lanes are zero.
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

// Loads a complete vector, or fewer lanes at the end of a row. `count` is how many elements remain, at least
// 1.
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

// Calls body(i, size - i) on several threads, where i is the index of each vector's first element.
template <typename Body>
MTL_INLINE void for_each_vector(int64_t size, const Body& body) {
  for_each(divide_up(size, kLanes), size, [&](int64_t vector) { body(vector * kLanes, size - vector * kLanes); });
}

// ---- arithmetic ----

// Returns e^x with an error of at most 2 units in the last place for x in [-87.3, 88.7]. Below this range,
// the result is 0; above it, the result is about the largest finite value. NaN stays NaN (maximum and minimum
// return their second operand), so that invalid logits show in the loss. Subtracts a multiple of ln 2 (which
// is stored as two floats), then evaluates a polynomial of degree 6 on [-ln2/2, ln2/2].
MTL_INLINE VFloat exponential(VFloat x) {
  // the finite limit prevents an input of -infinity from becoming infinity - infinity
  const VFloat clamped = minimum(splat(88.7f), maximum(splat(-87.3f), x));
  const Power n = nearest_power(clamped * 1.44269504088896341f);
  const VFloat r = (clamped - n.value * 0.693359375f) - n.value * -2.12194440e-4f;
  VFloat p = splat(1.0f / 720);
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return select(x < -87.3f, splat(0.0f), times_power(p, n));
}

// Returns erf x with an absolute error of at most 1.5e-7 (see Abramowitz and Stegun 7.1.26). Below 0.3, where
// this error bound is too loose, uses the Taylor series.
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

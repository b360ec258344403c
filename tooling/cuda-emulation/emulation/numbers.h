// The 16-bit floating types and small vectors in CUDA's headers, for compilers without these headers. Names
// and bits are the same. Conversions round to nearest, ties to even.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// The attributes of a vector type through which memory of any type may be read and written.
#define MTL_VECTOR(bytes) __attribute__((may_alias, aligned(bytes)))

struct MTL_VECTOR(8) uint2 { unsigned x, y; };
struct MTL_VECTOR(16) uint4 { unsigned x, y, z, w; };
struct MTL_VECTOR(8) int2 { int x, y; };
struct MTL_VECTOR(16) int4 { int x, y, z, w; };
struct MTL_VECTOR(8) float2 { float x, y; };
struct MTL_VECTOR(16) float4 { float x, y, z, w; };
struct MTL_VECTOR(16) double2 { double x, y; };

inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline int __float_as_int(float value) { return static_cast<int>(__float_as_uint(value)); }
inline float __int_as_float(int bits) { return __uint_as_float(static_cast<unsigned>(bits)); }

// Rounds a float32 sum as matrix units do. PTX does not specify the rounding, but GPUs have been observed to
// truncate (Fasi et al. 2021, "Numerical behavior of NVIDIA tensor cores"). Therefore the emulation
// truncates, too. Such errors all have the same direction and accumulate, so tolerances must allow for them.
inline float toward_zero(double value) {
  const float nearest = static_cast<float>(value);
  return std::fabs(static_cast<double>(nearest)) > std::fabs(value) ? std::nextafter(nearest, 0.0f) : nearest;
}

struct __nv_bfloat16 { uint16_t bits; };
struct __half { uint16_t bits; };
struct alignas(4) __nv_bfloat162 { __nv_bfloat16 x, y; };
struct alignas(4) __half2 { __half x, y; };
using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline float __bfloat162float(__nv_bfloat16 value) { return __uint_as_float(unsigned{value.bits} << 16); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const unsigned bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};  // every NaN is this one on a GPU
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
inline __nv_bfloat16 __float2bfloat16(float value) { return __float2bfloat16_rn(value); }

inline float __half2float(__half value) {
  _Float16 number;
  std::memcpy(&number, &value.bits, sizeof number);
  return static_cast<float>(number);
}
inline __half __float2half_rn(float value) {
  const _Float16 number = static_cast<_Float16>(value);
  __half result;
  std::memcpy(&result.bits, &number, sizeof number);
  return result;
}
inline __half __float2half(float value) { return __float2half_rn(value); }

inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 value) { return __floats2bfloat162_rn(value.x, value.y); }
inline float2 __bfloat1622float2(__nv_bfloat162 value) { return {__bfloat162float(value.x), __bfloat162float(value.y)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
inline __half2 __float22half2_rn(float2 value) { return __floats2half2_rn(value.x, value.y); }
inline float2 __half22float2(__half2 value) { return {__half2float(value.x), __half2float(value.y)}; }

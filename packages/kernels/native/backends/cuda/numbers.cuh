// The floating-point types of kernels: conversions from and to float, and packing of two 16-bit values into
// one register of a matrix instruction.
#pragma once

#include <cstring>

#include "backends/cuda/instructions/ptx.h"

namespace mtl::cuda {

template <typename To, typename From>
MTL_PTX To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

template <typename T>
struct Numbers;
template <>
struct Numbers<__nv_bfloat16> {
  MTL_PTX static uint32_t pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return bits_as<uint32_t>(pair);
  }
  MTL_PTX static float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
  MTL_PTX static __nv_bfloat16 narrow(float value) { return __float2bfloat16_rn(value); }
};
template <>
struct Numbers<__half> {
  MTL_PTX static uint32_t pack(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return bits_as<uint32_t>(pair);
  }
  MTL_PTX static float widen(__half value) { return __half2float(value); }
  MTL_PTX static __half narrow(float value) { return __float2half_rn(value); }
};
template <>
struct Numbers<float> {
  MTL_PTX static float widen(float value) { return value; }
  MTL_PTX static float narrow(float value) { return value; }
};

}  // namespace mtl::cuda

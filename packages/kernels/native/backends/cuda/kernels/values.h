// Element access for kernels: N neighbouring elements at a time, converted to float. If N elements have 16
// bytes, they are accessed at once. N = 1 is for rows that are not a multiple of 16 bytes, and for views that
// are not aligned to 16 bytes.
#pragma once

#include <cstdint>
#include <cstring>

#include "backends/cuda/launch.h"

namespace mtl::cuda {

using bf16 = __nv_bfloat16;
using fp16 = __half;

struct alignas(16) Words {
  uint32_t at[4];
};

// The number of elements in a 16-byte access.
template <typename T>
constexpr int kPack = 16 / static_cast<int>(sizeof(T));

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(bf16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float to_float(fp16 value) { return __half2float(value); }

__device__ __forceinline__ void set(float* to, float value) { *to = value; }
__device__ __forceinline__ void set(bf16* to, float value) { *to = __float2bfloat16_rn(value); }
__device__ __forceinline__ void set(fp16* to, float value) { *to = __float2half_rn(value); }

// Converts a 4-byte word to or from the one or two elements that it contains.
__device__ __forceinline__ void unpack(uint32_t word, const float*, float* to) { to[0] = __uint_as_float(word); }
__device__ __forceinline__ void unpack(uint32_t word, const bf16*, float* to) {
  to[0] = __uint_as_float(word << 16);
  to[1] = __uint_as_float(word & 0xffff0000u);
}
__device__ __forceinline__ void unpack(uint32_t word, const fp16*, float* to) {
  __half2 pair;
  memcpy(&pair, &word, sizeof word);
  const float2 both = __half22float2(pair);
  to[0] = both.x;
  to[1] = both.y;
}
__device__ __forceinline__ uint32_t pack(const float* from, const float*) { return __float_as_uint(from[0]); }
__device__ __forceinline__ uint32_t pack(const float* from, const bf16*) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(from[0], from[1]);
  uint32_t word;
  memcpy(&word, &pair, sizeof word);
  return word;
}
__device__ __forceinline__ uint32_t pack(const float* from, const fp16*) {
  const __half2 pair = __floats2half2_rn(from[0], from[1]);
  uint32_t word;
  memcpy(&word, &pair, sizeof word);
  return word;
}

// Converts the elements in a 16-byte access to float.
template <typename T>
__device__ __forceinline__ void unpack_all(float (&to)[kPack<T>], const Words& words) {
  constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
#pragma unroll
  for (int word = 0; word < 4; ++word) unpack(words.at[word], static_cast<const T*>(nullptr), to + word * kPerWord);
}

template <typename T, int N>
__device__ __forceinline__ void load(float (&to)[N], const T* from) {
  if constexpr (N == 1) {
    to[0] = to_float(from[0]);
  } else {
    static_assert(N % kPack<T> == 0, "whole accesses of 16 bytes");
    constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
#pragma unroll
    for (int access = 0; access < N / kPack<T>; ++access) {
      const Words words = in_one_access<Words>(from + access * kPack<T>);
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        unpack(words.at[word], static_cast<const T*>(nullptr), to + access * kPack<T> + word * kPerWord);
      }
    }
  }
}

template <typename T, int N>
__device__ __forceinline__ void store(T* to, const float (&from)[N]) {
  if constexpr (N == 1) {
    set(to, from[0]);
  } else {
    static_assert(N % kPack<T> == 0, "whole accesses of 16 bytes");
    constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
#pragma unroll
    for (int access = 0; access < N / kPack<T>; ++access) {
      Words words;
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        words.at[word] = pack(from + access * kPack<T> + word * kPerWord, static_cast<const T*>(nullptr));
      }
      in_one_access<Words>(to + access * kPack<T>) = words;
    }
  }
}

// Returns e^x. For float32, at most the last two bits are wrong, as the tests for float32 require. For 16-bit
// types, a single instruction is accurate enough, because results are rounded to 8 or 11 bits anyway.
template <typename T>
__device__ __forceinline__ float exponential(float x) {
  return sizeof(T) == 4 ? expf(x) : __expf(x);
}

}  // namespace mtl::cuda

// Vectors of kLanes values, written with the compiler's vector extensions. Arithmetic (+ - * / & | ^ << >> <
// ?:) needs no functions from the instruction set. An instruction set defines kLanes and then includes this
// file.
#pragma once

#include <stdint.h>

#include "backends/cpu/threads.h"
#include "mtl/dtype.h"

namespace mtl {
namespace {

typedef float VFloat __attribute__((vector_size(kLanes * 4)));
typedef int32_t VInt __attribute__((vector_size(kLanes * 4)));  // a mask, too: lanes are all ones or zero
typedef uint32_t VUint __attribute__((vector_size(kLanes * 4)));
typedef uint64_t VLong __attribute__((vector_size(kLanes * 4)));  // kLanes / 2 lanes
typedef uint16_t VHalf __attribute__((vector_size(kLanes * 2)));  // numbers of 16 bits for as many lanes as VFloat
// The same vector types without an alignment requirement, for loads and stores.
typedef float VFloatU __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef uint32_t VUintU __attribute__((vector_size(kLanes * 4), aligned(2), may_alias));  // pairs of bfloat16, too
typedef uint16_t VHalfU __attribute__((vector_size(kLanes * 2), aligned(2), may_alias));

MTL_INLINE VFloat splat(float value) { return value - VFloat{}; }
MTL_INLINE VFloat bits_to_float(VUint bits) { return (VFloat)bits; }
MTL_INLINE VUint float_to_bits(VFloat value) { return (VUint)value; }
MTL_INLINE VFloat select(VInt mask, VFloat yes, VFloat no) { return mask ? yes : no; }

// Returns the lanes `order[0]`, `order[1]`, ... of `a` and `b`; indices from kLanes on select lanes of `b`.
// The order must be constant, so that the compiler can translate it to instructions.
template <typename Vector>
MTL_INLINE Vector shuffle(Vector a, Vector b, VInt order) {
#if defined(__clang__)
  Vector result = {};
  for (int lane = 0; lane < kLanes; ++lane) {
    result[lane] = order[lane] < kLanes ? a[order[lane]] : b[order[lane] - kLanes];
  }
  return result;
#else
  return __builtin_shuffle(a, b, order);
#endif
}

}  // namespace
}  // namespace mtl

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

// shuffle(a, b, lane_order(number)) returns the lanes number(0), number(1), ... of `a` and `b`; numbers from
// kLanes on select lanes of `b`. `number` captures nothing.
#if defined(__clang__)
template <typename Integer, Integer... kIntegers>
struct LaneNumbers {};

// Clang makes instructions only of numbers in the call itself. It passes numbers in a vector through memory.
template <typename Vector, typename Number, int... kLane>
MTL_INLINE Vector shuffle_lanes(Vector a, Vector b, Number number, LaneNumbers<int, kLane...>) {
  return __builtin_shufflevector(a, b, number(kLane)...);
}

template <typename Number>
MTL_INLINE Number lane_order(Number number) {
  return number;
}

template <typename Vector, typename Order>
MTL_INLINE Vector shuffle(Vector a, Vector b, Order order) {
  return shuffle_lanes(a, b, order, __make_integer_seq<LaneNumbers, int, kLanes>{});
}
#else
template <typename Number>
MTL_INLINE VInt lane_order(Number number) {
  VInt order;
  for (int lane = 0; lane < kLanes; ++lane) order[lane] = number(lane);
  return order;
}

template <typename Vector>
MTL_INLINE Vector shuffle(Vector a, Vector b, VInt order) {
  return __builtin_shuffle(a, b, order);
}
#endif

}  // namespace
}  // namespace mtl

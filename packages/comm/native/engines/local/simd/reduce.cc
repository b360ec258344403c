// The loops of reduce.h, compiled once for each instruction set of isa/sets.cmake; MTL_ISA_HEADER names the
// file of the set. Everything except the table is in an anonymous namespace; otherwise the linker could merge
// functions of different instruction sets, and a CPU could run code for an instruction set that it lacks.
#include "engines/local/reduce.h"
#include MTL_ISA_HEADER

namespace mtl::comm::local {
namespace {

// The number of elements per block; the float32 sums of a block stay in the first-level cache.
constexpr size_t kBlock = 1024;

// ---- conversion of 16-bit floats to float32 and back: round to nearest, ties to even; NaN stays NaN ----

void widen(const bfloat16* source, float* target, size_t count) {
  for (size_t i = 0; i < count; ++i) target[i] = bits_of<float>(static_cast<uint32_t>(source[i].bits) << 16);
}

void narrow(const float* source, bfloat16* target, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = bits_of<uint32_t>(source[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40u;
    target[i].bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
}

void widen(const float16* source, float* target, size_t count) {
  size_t i = 0;
  for (; i + kFloat16Lanes <= count; i += kFloat16Lanes) widen_lanes(source + i, target + i);
  for (; i < count; ++i) target[i] = widen_float16(source[i]);
}

void narrow(const float* source, float16* target, size_t count) {
  size_t i = 0;
  for (; i + kFloat16Lanes <= count; i += kFloat16Lanes) narrow_lanes(source + i, target + i);
  for (; i < count; ++i) target[i] = narrow_to_float16(source[i]);
}

// ---- reductions of two values ----

// Integers wrap around. The sum is computed with unsigned integers, because signed overflow is undefined in
// C++.
template <typename T, typename Unsigned>
struct IntegerSum {
  static T apply(T a, T b) { return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b))); }
};
template <typename T>
struct FloatSum {
  static T apply(T a, T b) { return a + b; }
};
template <typename T>
struct IntegerMaximum {
  static T apply(T a, T b) { return a > b ? a : b; }
};
template <typename T>
struct IntegerMinimum {
  static T apply(T a, T b) { return a < b ? a : b; }
};
// Values that compare equal have equal bits, except for zeros: for two different zeros, "and" of the bits
// gives +0, and "or" gives -0. If b is NaN, the result is NaN.
template <typename T, typename Bits>
struct FloatMaximum {
  static T apply(T a, T b) {
    const T equal = bits_of<T>(static_cast<Bits>(bits_of<Bits>(a) & bits_of<Bits>(b)));
    const T larger = a > b ? a : b;
    return a != a ? a : a == b ? equal : larger;
  }
};
template <typename T, typename Bits>
struct FloatMinimum {
  static T apply(T a, T b) {
    const T equal = bits_of<T>(static_cast<Bits>(bits_of<Bits>(a) | bits_of<Bits>(b)));
    const T smaller = a < b ? a : b;
    return a != a ? a : a == b ? equal : smaller;
  }
};

// ---- loops ----

// Element i of the output depends only on element i of the sources. Therefore the output may be one of the
// sources, and the loop may be vectorized (ivdep).
template <typename T, typename Combine>
void reduce_same(const void* const* sources, int num_sources, void* output, size_t count) {
  const T* first = static_cast<const T*>(sources[0]);
  T* result = static_cast<T*>(output);
  if (num_sources == 1) {
    if (result != first) __builtin_memmove(result, first, count * sizeof(T));
    return;
  }
  if (num_sources == 2) {
    const T* second = static_cast<const T*>(sources[1]);
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) result[i] = Combine::apply(first[i], second[i]);
    return;
  }
  T block[kBlock];
  for (size_t base = 0; base < count; base += kBlock) {
    const size_t length = count - base < kBlock ? count - base : kBlock;
    const T* second = static_cast<const T*>(sources[1]) + base;
    for (size_t i = 0; i < length; ++i) block[i] = Combine::apply(first[base + i], second[i]);
    for (int source = 2; source < num_sources; ++source) {
      const T* next = static_cast<const T*>(sources[source]) + base;
      for (size_t i = 0; i < length; ++i) block[i] = Combine::apply(block[i], next[i]);
    }
    __builtin_memcpy(result + base, block, length * sizeof(T));
  }
}

template <typename T, typename Combine>
void reduce_widened(const void* const* sources, int num_sources, void* output, size_t count) {
  float block[kBlock], other[kBlock];
  for (size_t base = 0; base < count; base += kBlock) {
    const size_t length = count - base < kBlock ? count - base : kBlock;
    widen(static_cast<const T*>(sources[0]) + base, block, length);
    for (int source = 1; source < num_sources; ++source) {
      widen(static_cast<const T*>(sources[source]) + base, other, length);
      for (size_t i = 0; i < length; ++i) block[i] = Combine::apply(block[i], other[i]);
    }
    narrow(block, static_cast<T*>(output) + base, length);
  }
}

template <typename T>
void widen_all(const void* source, float* target, size_t count) {
  widen(static_cast<const T*>(source), target, count);
}

template <typename T>
void narrow_all(const float* source, void* target, size_t count) {
  narrow(source, static_cast<T*>(target), count);
}

}  // namespace

#define MTL_TABLE_NAME_OF(isa) reduce_table_##isa
#define MTL_TABLE_NAME(isa) MTL_TABLE_NAME_OF(isa)

extern const ReduceTable MTL_TABLE_NAME(MTL_ISA);
const ReduceTable MTL_TABLE_NAME(MTL_ISA) = {{
    {reduce_same<float, FloatSum<float>>, reduce_same<float, FloatMaximum<float, uint32_t>>,
     reduce_same<float, FloatMinimum<float, uint32_t>>},
    {reduce_widened<bfloat16, FloatSum<float>>, reduce_widened<bfloat16, FloatMaximum<float, uint32_t>>,
     reduce_widened<bfloat16, FloatMinimum<float, uint32_t>>},
    {reduce_widened<float16, FloatSum<float>>, reduce_widened<float16, FloatMaximum<float, uint32_t>>,
     reduce_widened<float16, FloatMinimum<float, uint32_t>>},
    {reduce_same<double, FloatSum<double>>, reduce_same<double, FloatMaximum<double, uint64_t>>,
     reduce_same<double, FloatMinimum<double, uint64_t>>},
    {reduce_same<int32_t, IntegerSum<int32_t, uint32_t>>, reduce_same<int32_t, IntegerMaximum<int32_t>>,
     reduce_same<int32_t, IntegerMinimum<int32_t>>},
    {reduce_same<int64_t, IntegerSum<int64_t, uint64_t>>, reduce_same<int64_t, IntegerMaximum<int64_t>>,
     reduce_same<int64_t, IntegerMinimum<int64_t>>},
    {reduce_same<uint8_t, IntegerSum<uint8_t, uint8_t>>, reduce_same<uint8_t, IntegerMaximum<uint8_t>>,
     reduce_same<uint8_t, IntegerMinimum<uint8_t>>},
}, {widen_all<bfloat16>, widen_all<float16>}, {narrow_all<bfloat16>, narrow_all<float16>}};

}  // namespace mtl::comm::local

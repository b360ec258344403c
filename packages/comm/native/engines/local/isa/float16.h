// float16 values. The compiler converts them: it rounds to nearest, ties to even, and NaN stays NaN. The code
// is in an anonymous namespace, so that each instruction set has its own copy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtl::comm::local {
namespace {

struct float16 {
  uint16_t bits;
};

#if defined(__aarch64__)
using CompilerHalf = __fp16;  // GCC has _Float16 for C++ only since version 13 there
#else
using CompilerHalf = _Float16;
#endif

template <typename To, typename From>
static inline __attribute__((always_inline)) To bits_of(From value) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To result;
  __builtin_memcpy(&result, &value, sizeof(result));
  return result;
}

inline float widen_float16(float16 value) { return static_cast<float>(bits_of<CompilerHalf>(value.bits)); }

inline float16 narrow_to_float16(float value) { return {bits_of<uint16_t>(static_cast<CompilerHalf>(value))}; }

}  // namespace
}  // namespace mtl::comm::local

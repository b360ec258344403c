// The square root of a vector: one instruction where there is one, otherwise the C library's function.
#pragma once

#include <math.h>

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

MTL_INLINE VFloat square_root(VFloat value) {
#if MTL_ISA_LEVEL == 2
  return (VFloat)_mm512_sqrt_ps((__m512)value);
#elif MTL_ISA_LEVEL == 1
  return (VFloat)_mm256_sqrt_ps((__m256)value);
#else
  for (int lane = 0; lane < kLanes; ++lane) value[lane] = sqrtf(value[lane]);
  return value;
#endif
}

}  // namespace
}  // namespace mtl

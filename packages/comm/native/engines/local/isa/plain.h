// Conversion of float16 by the compiler, one value at a time, for any processor.
#pragma once

#include "engines/local/isa/float16.h"

namespace mtl::comm::local {
namespace {

constexpr size_t kFloat16Lanes = 1;

inline void widen_lanes(const float16* source, float* target) { *target = widen_float16(*source); }

inline void narrow_lanes(const float* source, float16* target) { *target = narrow_to_float16(*source); }

}  // namespace
}  // namespace mtl::comm::local

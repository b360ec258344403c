// Converts 8 float16 values at a time, using F16C.
#pragma once

#include <immintrin.h>

#include "engines/local/isa/float16.h"

namespace mtl::comm::local {
namespace {

constexpr size_t kFloat16Lanes = 8;

inline void widen_lanes(const float16* source, float* target) {
  _mm256_storeu_ps(target, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source))));
}

inline void narrow_lanes(const float* source, float16* target) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(target),
                   _mm256_cvtps_ph(_mm256_loadu_ps(source), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

}  // namespace
}  // namespace mtl::comm::local

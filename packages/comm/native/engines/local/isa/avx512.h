// Conversion of 16 float16 numbers at a time.
#pragma once

#include <immintrin.h>

#include "engines/local/isa/float16.h"

namespace mtl::comm::local {
namespace {

constexpr size_t kFloat16Lanes = 16;

inline void widen_lanes(const float16* source, float* target) {
  _mm512_storeu_ps(target, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source))));
}

inline void narrow_lanes(const float* source, float16* target) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(target),
                      _mm512_cvtps_ph(_mm512_loadu_ps(source), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

}  // namespace
}  // namespace mtl::comm::local

// Element-wise reduction of several arrays, for all dtypes, with the best instruction set of this CPU.
#pragma once

#include <cstddef>

#include "core/operation.h"

namespace mtl::comm::local {

// output[i] = sources[0][i] + sources[1][i] + ..., in this order; 16-bit floats in float32, rounded once;
// integers wrap around. In maximum and minimum NaN wins over numbers, and +0 is above -0. `output` may be one
// of the sources.
using ReduceFunction = void (*)(const void* const* sources, int num_sources, void* output, size_t count);

constexpr int kNumReductions = 3;

struct ReduceTable {
  ReduceFunction functions[kNumDTypes][kNumReductions];
  // bfloat16, float16
  void (*widen[2])(const void* source, float* target, size_t count);
  void (*narrow[2])(const float* source, void* target, size_t count);
};

// One per instruction set, compiled from simd/reduce.cc; null if this build lacks it.
extern const ReduceTable* const reduce_tables[3];  // plain, avx2, avx512

// The highest level that this CPU supports and this build contains.
int best_reduce_level();

ReduceFunction reduce_function(DType dtype, Reduction reduction);

// 16-bit floats to float32 and back (to nearest, ties to even), for sums that are computed in several stages
// and rounded once.
void widen(DType dtype, const void* source, float* target, size_t count);
void narrow(DType dtype, const float* source, void* target, size_t count);

}  // namespace mtl::comm::local

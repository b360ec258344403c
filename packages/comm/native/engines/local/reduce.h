// Element-wise reduction of several arrays, for all dtypes, using the best instruction set that this CPU
// supports.
#pragma once

#include <cstddef>

#include "core/operation.h"

namespace mtl::comm::local {

// Reduces arrays element by element, for example `output[i] = sources[0][i] + sources[1][i] + ...`, in this
// order. Sums of 16-bit floats are computed in float32 and rounded once; integers wrap around. In maximum and
// minimum, the result is NaN if any value is NaN, and +0 is greater than -0. `output` may be one of the
// sources.
using ReduceFunction = void (*)(const void* const* sources, int num_sources, void* output, size_t count);

constexpr int kNumReductions = 3;

struct ReduceTable {
  ReduceFunction functions[kNumDTypes][kNumReductions];
  // conversion of 16-bit floats to float32; index 0 is bfloat16, 1 is float16
  void (*widen[2])(const void* source, float* target, size_t count);
  void (*narrow[2])(const float* source, void* target, size_t count);
};

// The table of an instruction set, compiled from simd/reduce.cc.
struct ReduceSet {
  const char* name;
  const ReduceTable* table;
  bool (*is_supported)();
};

// The instruction sets that this build contains (see isa/sets.cmake), in order of preference. The last set
// runs on every CPU.
struct ReduceSets {
  const ReduceSet *first, *last;

  const ReduceSet* begin() const { return first; }
  const ReduceSet* end() const { return last; }
};
ReduceSets reduce_sets();

// Returns the table of the preferred set that this CPU supports.
const ReduceTable& best_reduce_table();

ReduceFunction reduce_function(DType dtype, Reduction reduction);

// Conversions of 16-bit floats to float32 and back (rounding to nearest, ties to even), for sums that are
// computed in several stages and rounded once.
void widen(DType dtype, const void* source, float* target, size_t count);
void narrow(DType dtype, const float* source, void* target, size_t count);

}  // namespace mtl::comm::local

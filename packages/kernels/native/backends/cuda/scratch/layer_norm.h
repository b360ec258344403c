// How layer_norm_backward divides rows among blocks, which determines its scratch memory.
#pragma once

#include "backends/cuda/scratch/sizes.h"
#include "core/op_call.h"
#include "core/scratch_blocks.h"

namespace mtl::cuda {

constexpr int kMaxRowThreads = 1024;

// Returns true if each thread of a block can read its part of a row in a single access. `pack` is the number
// of elements in 16 bytes.
inline bool fits_registers(int64_t columns, int64_t pack) { return columns <= kMaxRowThreads * pack; }

struct LayerNormRows {
  bool is_packed;     // each thread of a block reads its part of a row in one access
  int threads;        // of a block, if packed
  int64_t num_lines;  // lines of partial sums of the weight gradients
};

LayerNormRows layer_norm_backward_rows(const OpCall& call, const GpuProperties& gpu);

}  // namespace mtl::cuda

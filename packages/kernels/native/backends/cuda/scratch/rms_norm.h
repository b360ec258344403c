// How rms_norm_backward divides rows among blocks, which determines its scratch memory.
#pragma once

#include "backends/cuda/scratch/layer_norm.h"

namespace mtl::cuda {

// The shape of a block: `x` threads for each of `y` rows.
struct RowBlock {
  int x, y;
};

// Returns the shape of a block. The number of threads for a short row is a power of two, so that a warp has
// complete rows; a long row has complete warps. `pack` is the number of elements in 16 bytes.
RowBlock block_of_rows(int64_t columns, int64_t pack);

struct RmsNormRows {
  bool is_packed;     // each thread of a block reads its part of a row in one access
  int64_t num_lines;  // lines of partial sums of the weight gradient
};

RmsNormRows rms_norm_backward_rows(const OpCall& call, const GpuProperties& gpu);

}  // namespace mtl::cuda

// The division of rows among blocks in rms_norm_backward, which determines its scratch memory.
#pragma once

#include "backends/cuda/scratch/layer_norm.h"

namespace mtl::cuda {

// The threads of a block: `x` threads for each of `y` rows.
struct RowBlock {
  int x, y;
};

// Returns the threads of a block. A short row has a power of two of threads, so that a warp has complete
// rows. A long row has complete warps. `pack`: number of elements in 16 bytes.
RowBlock block_of_rows(int64_t columns, int64_t pack);

struct RmsNormRows {
  bool is_packed;     // each thread of a block reads its part of a row in one access
  int64_t num_lines;  // lines of partial sums of the weight gradient
};

RmsNormRows rms_norm_backward_rows(const OpCall& call, const GpuProperties& gpu);

}  // namespace mtl::cuda

// The division of a sequence's rows in router_statistics_forward, which determines its scratch memory.
#pragma once

#include "backends/cuda/scratch/sizes.h"
#include "core/op_call.h"

namespace mtl::cuda {

struct StatisticsParts {
  int64_t rows, experts, sequences;

  // Returns the number of parts of a sequence's rows. One warp sums each part.
  int64_t count() const { return std::clamp<int64_t>(ceiling(ceiling(rows, sequences), 32), 1, 64); }
  // Returns the number of sums of a part: scores and counts of all experts, squares and entropies.
  int64_t sums() const { return 2 * experts + 2; }
};

StatisticsParts statistics_parts(const OpCall& call);

}  // namespace mtl::cuda

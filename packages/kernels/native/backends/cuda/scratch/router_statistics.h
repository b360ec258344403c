// How router_statistics_forward divides the rows of a sequence into parts, which determines its scratch
// memory.
#pragma once

#include "backends/cuda/scratch/sizes.h"
#include "core/op_call.h"

namespace mtl::cuda {

struct StatisticsParts {
  int64_t rows, experts, sequences;

  // Returns the number of parts into which a sequence's rows are divided. One warp sums each part.
  int64_t count() const { return std::clamp<int64_t>(ceiling(ceiling(rows, sequences), 32), 1, 64); }
  // Returns how many sums each part has: scores and counts of all experts, squares and entropies.
  int64_t sums() const { return 2 * experts + 2; }
};

StatisticsParts statistics_parts(const OpCall& call);

}  // namespace mtl::cuda

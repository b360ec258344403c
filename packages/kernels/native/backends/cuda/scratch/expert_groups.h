// How slots are sorted by expert, which determines the scratch memory of group_by_expert and
// drop_over_capacity.
#pragma once

#include "backends/cuda/scratch/sizes.h"

namespace mtl::cuda {

constexpr int kSlotsOfTile = kThreads;  // slots of a block's tile, one for each thread

struct SortedSlots {
  int64_t slots, experts;

  int64_t tiles() const { return std::max<int64_t>(1, ceiling(slots, kSlotsOfTile)); }
  // Returns the number of bytes of the counts [tiles, experts], which say how many of a tile's slots each
  // expert has.
  int64_t count_bytes() const { return tiles() * experts * static_cast<int64_t>(sizeof(int32_t)); }
};

}  // namespace mtl::cuda

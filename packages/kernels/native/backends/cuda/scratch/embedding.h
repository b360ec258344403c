// How embedding_backward sorts ids and divides them into chunks, which determines the op's scratch memory.
#pragma once

#include "backends/cuda/scratch/sizes.h"

namespace mtl::cuda {

constexpr int kChunk = 64;  // sorted tokens per block

constexpr int kMaxDigitBits = 9, kMaxDigits = 1 << kMaxDigitBits;
constexpr int kWarps = kThreads / 32;
constexpr int kSteps = 8;                     // ids per lane
constexpr int kStretch = 32 * kSteps;         // per warp
constexpr int64_t kTile = kWarps * kStretch;  // per block

inline int64_t num_tiles(int64_t num_ids) { return ceiling(num_ids, kTile); }

// The layout of the memory for sorting: two lists that contain each row with its index, then counts and
// totals. Each part is 16-byte aligned.
struct SortPlaces {
  explicit SortPlaces(int64_t num_ids)
      : list((num_ids + 3) / 4 * 4), counts(4 * list), totals(counts + kMaxDigits * num_tiles(num_ids)) {}
  int64_t list, counts, totals;  // in units of 4 bytes
  int64_t end() const { return totals + kMaxDigits; }
};

}  // namespace mtl::cuda

// The turns of the fused backward pass (hopper_fused_backward.cu): blocks of keys add to the sums of a tile
// of queries one after the other, the block of the last keys first. Sums then have one order.
//
// Causal, the block of the last keys has the fewest queries and begins at them, so a block finds that those
// before it in turn, which began earlier, are ahead of it. It rarely waits.
#pragma once

#include "backends/cuda/attention/masks.cuh"
#include "backends/cuda/instructions/turns.h"

namespace mtl::cuda {

constexpr int kKeysOfBlock = 128;

// The scratch memory of a pass.
struct FusedMemory {
  uint32_t* ticket;      // the number of blocks that have begun
  uint32_t* turns_over;  // of each tile of queries
  // The sums of each tile: for each 8 columns, four values of each thread of a warp group, in the layout of a
  // matmul's sums, so that a warp's accesses are 512 contiguous bytes.
  float4* sums;
  int tiles_of_head;
};

// The number of a head's first tile.
MTL_PTX int first_tile_of(const AttentionArguments& a, const FusedMemory& memory, const HeadPlace& head) {
  const int number = head.group * a.members + head.member;
  if (a.starts == nullptr) return (head.batch * a.heads + number) * memory.tiles_of_head;
  return number * memory.tiles_of_head + head.first_row / kTile + head.batch;
}

// Blocks of keys [begin, end), each with its number in its sample.
struct KeyBlocks {
  int begin, end;
};
// Returns the blocks of keys that add to the sums of queries that see no key outside this range.
MTL_PTX KeyBlocks blocks_of(const KeyRange& seen) {
  if (seen.begin >= seen.end) return {0, 0};
  return {seen.begin / kKeysOfBlock, (seen.end + kKeysOfBlock - 1) / kKeysOfBlock};
}

// The four values of a thread in columns 8 n to 8 n + 7 of a tile's sums.
template <int kWidth>
MTL_PTX float4* sums_at(const FusedMemory& memory, int tile, int n) {
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  return memory.sums + ((static_cast<int64_t>(tile) * (kWidth / 8) + n) * kThreads + thread);
}

}  // namespace mtl::cuda

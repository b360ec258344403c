// The list of a launch's tiles of queries, from which the blocks of Hopper's forward pass take the next tile:
// one block per multiprocessor computes many tiles, and loads the next tile while it finishes the previous
// one.
//
// A block takes a tile by its ticket, a number from a counter that all blocks of a launch share. A
// multiprocessor that starts late, because kernels of another stream occupy it, thus takes fewer tiles. Which
// block computes a tile makes no difference to its numbers.
#pragma once

#include "backends/cuda/attention/hopper_tiles.cuh"
#include "backends/cuda/instructions/tickets.h"

namespace mtl::cuda {

// The tiles of queries of all heads. Heads are computed in sections, so that the keys and values of a section
// stay in the L2 cache; within a section the last tiles come first, because with causal masks they attend to
// the most keys.
struct QueryList {
  int tiles_of_head;  // in the longest sample
  int heads;          // in all samples
  int heads_of_section;

  MTL_HOST_DEVICE int count() const { return tiles_of_head * heads; }
};

// A tile of the list: its head, counted over all samples, and the tile's number in this head.
struct QueryTile {
  int head, tile;
};
MTL_HOST_DEVICE inline QueryTile tile_of_list(const QueryList& list, int number) {
  const int section = number / (list.tiles_of_head * list.heads_of_section);
  const int first_head = section * list.heads_of_section, in_section = number - first_head * list.tiles_of_head;
  const int left = list.heads - first_head, heads = left < list.heads_of_section ? left : list.heads_of_section;
  return {first_head + in_section % heads, list.tiles_of_head - 1 - in_section / heads};
}

// Called by one thread of each block. Returns the tile's number; a block stops after its first ticket of
// `count` or more. The last ticket of a launch is therefore known, and the block that takes it prepares the
// counter for the next launch.
MTL_PTX int take_tile(uint32_t* counter, int count) {
  const uint32_t ticket = take_ticket(counter);
  if (ticket == static_cast<uint32_t>(count) + gridDim.x - 1) *counter = 0;
  return static_cast<int>(ticket);
}

// A tile of queries, as the loading warp describes it to the computing warps in shared memory.
struct QueryWork {
  QueryBlock block;
  int sequence;  // length of its sample; 0: there is no more work
};

// Returns a value that is the same in all lanes of a warp, in a form that the compiler knows to be uniform.
// The compiler cannot tell this for values from shared memory.
MTL_PTX int uniform(int value) { return __shfl_sync(kWholeWarp, value, 0); }

// Barriers of the forward pass: `resident` when a tile of queries has arrived, `released` when all computing
// warps have read it for the last time.
template <int kSlots>
struct QueryBarriers : RingBarriers<kSlots> {
  uint64_t released;

  MTL_PTX void set_up(int arrivals_full, int num_warps) {
    set_up_barrier(&released, num_warps);
    RingBarriers<kSlots>::set_up(arrivals_full, num_warps);
  }
};

}  // namespace mtl::cuda

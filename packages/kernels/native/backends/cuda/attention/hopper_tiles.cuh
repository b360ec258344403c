// Tiles of 16-bit matrices in the layout that Hopper's copy engine writes and its tensor cores read, and the
// ring of tiles that passes them from the warp group that loads to the warp groups that compute.
//
// A tile of W columns consists of panels of 64 columns and, at widths 80 and 96, a last panel of 16 or 32
// columns. A panel has contiguous rows of 128 bytes (64 or 32 in the last panel); the swizzle of 128 (64, 32)
// bytes permutes the 16-byte units of a row. Every matmul thus reads its operands in one of the PTX ISA's
// canonical layouts, along the rows or across them.
#pragma once

#include "backends/cuda/attention/masks.cuh"
#include "backends/cuda/instructions/hopper.h"

namespace mtl::cuda {

constexpr int kGroupThreads = 128;  // in a warp group
constexpr int kBoxRows = 64;        // rows of a panel that one copy transfers
constexpr int kHopperSharedBytes = 227 << 10;

// Registers per thread at launch with three warp groups: all registers of a multiprocessor, in units of 8.
// Later a group gains registers only when another group releases them, not from the multiprocessor.
constexpr int kLaunchRegisters = 65536 / (3 * kGroupThreads) / 8 * 8;

// Returns the swizzle of a panel with this many columns.
constexpr Swizzle swizzle_of(int columns) {
  return columns == 64 ? Swizzle::k128 : columns == 32 ? Swizzle::k64 : Swizzle::k32;
}

// The description of an operand in kernels: boxes of its full panels and of the last, narrower panel (if all
// panels are full, `rest` is a second copy of `full`), and the strides between samples, groups and members of
// a group, counted in vectors.
struct PanelMaps {
  TensorMap full, rest;
  int sample, group, member;
};

// The operands that the kernels of the forward pass copy; BackwardMaps has the operands for the backward
// pass.
struct ForwardMaps {
  PanelMaps query, key, value;
};
struct BackwardMaps {
  PanelMaps query, key, value, output_gradient;
};

// Returns the index of a head among the vectors of a position.
MTL_PTX int vector_of(const PanelMaps& maps, const HeadPlace& place) {
  return place.batch * maps.sample + place.group * maps.group + place.member * maps.member;
}

// Traps unless the memory of tiles has the alignment at which the pattern of the widest swizzle repeats:
// copies and descriptors assume this alignment. The declaration of dynamic shared memory requests it; only a
// GPU can verify it.
MTL_PTX void require_swizzle_alignment([[maybe_unused]] const unsigned char* bytes) {
#if defined(__CUDACC__)
  if (shared_address(bytes) % 1024 != 0) __trap();
#endif
}

template <int kWidth, int kRows>
struct HopperTile {
  static constexpr int kFull = kWidth / 64, kRest = kWidth % 64;
  static_assert(kRest == 0 || kRest == 16 || kRest == 32);
  static_assert(kRows % kBoxRows == 0);
  static constexpr int kRowBytes = 128, kRestRowBytes = 2 * kRest;  // bytes per row of a panel
  static constexpr int kPanelBytes = kRows * kRowBytes;
  static constexpr int kRestAt = kFull * kPanelBytes;
  static constexpr int kBytes = kRows * kWidth * 2;
  static constexpr Swizzle kRestSwizzle = swizzle_of(kRest);
};

// Called by one thread: copies rows first_row .. first_row + kRows of vector `vector` of every position, with
// zeros beyond the last position and beyond the head's columns. Rows past the end of a packed sample belong
// to the next sample: masks hide them, and no thread stores results for them. The values in these rows are
// weighted by 0 and must be finite, as with a key mask. The barrier receives HopperTile::kBytes even if part
// of the tile is outside the tensor.
template <int kWidth, int kRows>
MTL_PTX void copy_tile(unsigned char* tile, const PanelMaps& maps, int vector, int first_row, uint64_t* barrier) {
  using Tile = HopperTile<kWidth, kRows>;
#pragma unroll
  for (int row = 0; row < kRows; row += kBoxRows) {
#pragma unroll
    for (int panel = 0; panel < Tile::kFull; ++panel) {
      copy_box(tile + panel * Tile::kPanelBytes + row * Tile::kRowBytes, maps.full, 64 * panel, vector, first_row + row, barrier);
    }
    if constexpr (Tile::kRest > 0) {
      copy_box(tile + Tile::kRestAt + row * Tile::kRestRowBytes, maps.rest, 64 * Tile::kFull, vector, first_row + row, barrier);
    }
  }
}

// Describes columns k to k + 15 of all rows of a panel for a matmul that sums along the columns (K-major).
// The leading offset is unused.
template <int kWidth, int kRows>
MTL_PTX uint64_t rows_at(uint32_t tile, int panel, int k) {
  using Tile = HopperTile<kWidth, kRows>;
  return matrix_descriptor(tile + panel * Tile::kPanelBytes + 2 * k, 16, 8 * Tile::kRowBytes, Swizzle::k128);
}
template <int kWidth, int kRows>
MTL_PTX uint64_t rest_rows_at(uint32_t tile, int k) {
  using Tile = HopperTile<kWidth, kRows>;
  return matrix_descriptor(tile + Tile::kRestAt + 2 * k, 16, 8 * Tile::kRestRowBytes, Tile::kRestSwizzle);
}

// Starts the matmul sums = a b^T and does not wait for it: 64 x kTaken. a and b are tiles of 64 and kRows
// rows; kTaken rows of b, from first_row on, are used.
template <typename T, int kWidth, int kRows, int kTaken = kRows>
MTL_PTX void start_scores(float (&sums)[kTaken / 8][4], const unsigned char* a_tile, const unsigned char* b_tile, int first_row = 0) {
  using Tile = HopperTile<kWidth, kRows>;
  static_assert(kTaken % 16 == 0);  // required by the swizzle pattern and by weighted sums
  const uint32_t a = shared_address(a_tile), b_rest = shared_address(b_tile) + first_row * Tile::kRestRowBytes;
  const uint32_t b = shared_address(b_tile) + first_row * Tile::kRowBytes;
#pragma unroll
  for (int panel = 0; panel < Tile::kFull; ++panel) {
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
      WarpGroupMatmul<T, kTaken>::by_rows(sums, rows_at<kWidth, 64>(a, panel, k), rows_at<kWidth, kRows>(b, panel, k), panel + k > 0);
    }
  }
#pragma unroll
  for (int k = 0; k < Tile::kRest; k += 16) {
    WarpGroupMatmul<T, kTaken>::by_rows(sums, rest_rows_at<kWidth, 64>(a, k), rest_rows_at<kWidth, kRows>(b_rest, k), true);
  }
}

// Starts the matmul sums += a b and does not wait for it: 64 x kWidth. a is 64 x kTaken in registers and must
// not change until the wait; b is kTaken rows of a tile, from first_row on, and is summed across its rows
// (MN-major).
template <typename T, int kWidth, int kRows, int kTaken = kRows>
MTL_PTX void start_weighted_sum(float (&sums)[kWidth / 8][4], const uint32_t (&a)[kTaken / 16][4], const unsigned char* b_tile,
                                int first_row = 0) {
  using Tile = HopperTile<kWidth, kRows>;
  const uint32_t b = shared_address(b_tile) + first_row * Tile::kRowBytes;
  const uint32_t b_rest = shared_address(b_tile) + Tile::kRestAt + first_row * Tile::kRestRowBytes;
#pragma unroll
  for (int k = 0; k < kTaken; k += 16) {
    const uint64_t full = matrix_descriptor(b + k * Tile::kRowBytes, Tile::kPanelBytes, 8 * Tile::kRowBytes, Swizzle::k128);
    auto& of_full = reinterpret_cast<float(&)[8 * Tile::kFull][4]>(sums);
    WarpGroupMatmul<T, 64 * Tile::kFull>::by_columns(of_full, a[k / 16], full, true);
    if constexpr (Tile::kRest > 0) {
      const uint64_t rest = matrix_descriptor(b_rest + k * Tile::kRestRowBytes, 16, 8 * Tile::kRestRowBytes, Tile::kRestSwizzle);
      auto& of_rest = reinterpret_cast<float(&)[Tile::kRest / 8][4]>(sums[8 * Tile::kFull]);
      WarpGroupMatmul<T, Tile::kRest>::by_columns(of_rest, a[k / 16], rest, true);
    }
  }
}

// Rounds accumulators to the left operand of the next matmul, whose register layout is the same.
template <typename T, int kTiles>
MTL_PTX void to_operand(uint32_t (&a)[kTiles / 2][4], const float (&sums)[kTiles][4]) {
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) operand_of<T>(a[n / 2], sums[n], sums[n + 1]);
}

// Barriers of a ring of kSlots slots: `full` signals that a slot's bytes have arrived, `empty` that all
// computing warps have released it, `resident` that tiles outside of the ring have arrived.
template <int kSlots>
struct RingBarriers {
  uint64_t full[kSlots], empty[kSlots], resident;

  // Called by one thread, before a barrier of the block. arrivals_full: arrivals that a slot waits for in
  // addition to its bytes; num_warps: number of computing warps.
  MTL_PTX void set_up(int arrivals_full, int num_warps) {
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      set_up_barrier(&full[slot], arrivals_full);
      set_up_barrier(&empty[slot], num_warps);
    }
    set_up_barrier(&resident, 1);
    publish_barriers();
  }
};

// A slot of the ring, and the round as the parity of the phase in which the slot is filled.
template <int kSlots>
struct RingPlace {
  int slot = 0, parity = 0;

  MTL_PTX void advance() {
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
  }
  MTL_PTX RingPlace take() {
    const RingPlace here = *this;
    advance();
    return here;
  }
};

// Called by the warp that fills the ring: waits until a slot is released. In the first round all slots are
// free.
template <int kSlots>
MTL_PTX void wait_until_empty(RingBarriers<kSlots>& barriers, const RingPlace<kSlots>& place) {
  wait_for_phase(&barriers.empty[place.slot], place.parity ^ 1, place.slot);
}
template <int kSlots>
MTL_PTX void wait_until_full(RingBarriers<kSlots>& barriers, const RingPlace<kSlots>& place) {
  wait_for_phase(&barriers.full[place.slot], place.parity, place.slot);
}
// Called by a warp whose matmuls and loads no longer read the slot. The warp synchronizes before the arrival,
// because an arrival covers only its own thread.
template <int kSlots>
MTL_PTX void let_go(RingBarriers<kSlots>& barriers, const RingPlace<kSlots>& place) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(&barriers.empty[place.slot]);
}

// Returns the mask of shown_keys, or 0 if all 64 keys are past the last key.
template <typename Arguments>
MTL_PTX uint64_t shown_keys_if_any(const Arguments& a, int batch, int first_key) {
  return first_key < positions_of(a).num_keys ? shown_keys(a, batch, first_key) : 0;
}

// The structure that the blocks of all kernels share: one warp group that fills a ring of kSlots slots, two
// warp groups that compute 64 rows each, and the register counts of both kinds. A kernel's Shape derives from
// it and defines the offsets in shared memory of the ring (kRingAt, kSlotBytes) and the barriers
// (kBarriersAt).
template <int kRingSlots, int kRegistersToLoad, int kRegistersToCompute>
struct HopperBlock {
  static constexpr int kGroups = 2, kGroupRows = 64, kRows = kGroups * kGroupRows, kSlots = kRingSlots;
  static constexpr int kThreadsOfBlock = (1 + kGroups) * kGroupThreads;
  static constexpr int kProducerRegisters = kRegistersToLoad, kConsumerRegisters = kRegistersToCompute;
  static_assert(kProducerRegisters + kGroups * kConsumerRegisters <= (1 + kGroups) * kLaunchRegisters);
  using Barriers = RingBarriers<kSlots>;
  using Place = RingPlace<kSlots>;
};

template <typename Shape>
MTL_PTX typename Shape::Barriers& barriers_of(unsigned char* bytes) {
  return *reinterpret_cast<typename Shape::Barriers*>(bytes + Shape::kBarriersAt);
}
template <typename Shape>
MTL_PTX unsigned char* slot_at(unsigned char* bytes, const typename Shape::Place& place) {
  return bytes + Shape::kRingAt + place.slot * Shape::kSlotBytes;
}

// Starts a kernel; every kernel calls it first. arrivals_full: see RingBarriers.
template <typename Shape>
MTL_PTX void begin_block(unsigned char* bytes, const PanelMaps& maps, int arrivals_full) {
  require_swizzle_alignment(bytes);
  if (threadIdx.x == 0) {
    prefetch(maps.full);
    barriers_of<Shape>(bytes).set_up(arrivals_full, Shape::kGroups * kWarps);
  }
  __syncthreads();
}

// Called by one thread: starts to fill the next slot with all bytes of a tile, as soon as no warp reads the
// slot's previous tile.
template <typename Shape, int kWidth, int kRows>
MTL_PTX void fill_slot(unsigned char* bytes, typename Shape::Place& place, const PanelMaps& maps, int vector, int first_row) {
  static_assert(Shape::kSlotBytes == HopperTile<kWidth, kRows>::kBytes);
  auto& barriers = barriers_of<Shape>(bytes);
  wait_until_empty(barriers, place);
  arrive_expecting(&barriers.full[place.slot], Shape::kSlotBytes);
  copy_tile<kWidth, kRows>(slot_at<Shape>(bytes, place), maps, vector, first_row, &barriers.full[place.slot]);
  place.advance();
}

// The computing group of a thread, and the first of its warp's 16 rows among the 64 rows of the group.
struct GroupPlace {
  int group, warp_row;
};
// kUniform tells the compiler that a warp's lanes are in one group, so that it keeps tile addresses in
// uniform registers.
template <bool kUniform>
MTL_PTX GroupPlace group_place() {
  const int thread = static_cast<int>(threadIdx.x), number = thread / kGroupThreads;
  return {(kUniform ? __shfl_sync(kWholeWarp, number, 0) : number) - 1, thread % kGroupThreads / 32 * 16};
}

// A block of 128 queries and the keys that they attend to, in tiles of kKeys.
struct QueryBlock {
  int first_query, first_tile, end_tile;
  HeadPlace place;
};
// Stores a packed sample's length in the arguments. If first_query is past the end, the block has nothing to
// do.
template <typename Shape, typename Arguments>
MTL_PTX QueryBlock query_block_at(Arguments& a, int head_of_batch, int first_query) {
  const HeadPlace place = enter_head(a, head_of_batch);
  const KeyRange seen = query_range<Shape::kRows>(a, place.batch, first_query).any;
  return {first_query, seen.begin / Shape::kKeys, (max(seen.end, 0) + Shape::kKeys - 1) / Shape::kKeys, place};
}
// Stores a packed sample's length, as the function above does, for a grid with a block for every tile of
// queries of every head.
template <typename Shape>
MTL_PTX QueryBlock query_block(AttentionArguments& a) {
  // the last queries attend to the most keys: they start first, so that no long block remains at the end
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Shape::kRows;
  return query_block_at<Shape>(a, static_cast<int>(blockIdx.y), first_query);
}

}  // namespace mtl::cuda

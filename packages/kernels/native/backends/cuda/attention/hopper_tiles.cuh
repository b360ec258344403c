// Tiles of 16-bit matrices in the layout that Hopper's copy engine writes and its tensor cores read, and the
// ring of tiles between the warp group that loads and the warp groups that compute.
//
// A tile of W columns consists of panels of 64 columns and, at widths 80 and 96, a last panel of 16 or 32. A
// panel is contiguous rows of 128 bytes (64, 32) whose 16-byte units are permuted by the swizzle of that many
// bytes. Every matmul thus reads its operands in one of the PTX ISA's canonical layouts, along the rows or
// across them.
#pragma once

#include "backends/cuda/attention/masks.cuh"
#include "backends/cuda/instructions/hopper.h"

namespace mtl::cuda {

constexpr int kGroupThreads = 128;  // of a warp group
constexpr int kBoxRows = 64;        // size of one copy: this many rows of a panel
constexpr int kHopperSharedBytes = 227 << 10;

// Registers per thread of three warp groups at launch: all of a multiprocessor's, in units of 8. A group
// gains registers only when another releases them, not from the multiprocessor.
constexpr int kLaunchRegisters = 65536 / (3 * kGroupThreads) / 8 * 8;

// The swizzle of a panel with this many columns.
constexpr Swizzle swizzle_of(int columns) {
  return columns == 64 ? Swizzle::k128 : columns == 32 ? Swizzle::k64 : Swizzle::k32;
}

// The description of an operand in kernels: boxes of its full panels and of the last, narrower one (or,
// without one, the first again), and the strides, in vectors of a position, between samples, groups and
// members of a group.
struct PanelMaps {
  TensorMap full, rest;
  int sample, group, member;
};

// The operands that kernels of the forward and the backward pass copy.
struct ForwardMaps {
  PanelMaps query, key, value;
};
struct BackwardMaps {
  PanelMaps query, key, value, output_gradient;
};

// The index of a head among the vectors of a position.
MTL_PTX int vector_of(const PanelMaps& maps, const HeadPlace& place) {
  return place.batch * maps.sample + place.group * maps.group + place.member * maps.member;
}

// The alignment at which the pattern of the widest swizzle repeats; copies and descriptors assume it for
// tiles. The declaration of dynamic shared memory requests it; only a GPU can verify it.
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
  static constexpr int kRowBytes = 128, kRestRowBytes = 2 * kRest;  // of a panel
  static constexpr int kPanelBytes = kRows * kRowBytes;
  static constexpr int kRestAt = kFull * kPanelBytes;
  static constexpr int kBytes = kRows * kWidth * 2;
  static constexpr Swizzle kRestSwizzle = swizzle_of(kRest);
};

// By one thread: copies rows first_row .. first_row + kRows of vector `vector` of every position, with zeros
// beyond the last position and beyond the head's columns. The rows past the end of a packed sample belong to
// the next sample: masks hide them and no thread stores them. Their values are weighted by 0 and must be
// finite, as with a key mask. The barrier receives HopperTile::kBytes even if part of the tile is outside the
// tensor.
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

// Columns k to k + 15 of all rows of a panel, multiplied along the columns (K-major). The leading offset is
// unused.
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

// sums = a b^T, where a and b are tiles of 64 and kRows rows; of b, kTaken rows from first_row on are used;
// 64 x kTaken. Started, not waited for.
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

// sums += a b: a is 64 x kTaken in registers, b is kTaken rows of a tile from first_row on, multiplied across
// the rows (MN-major); 64 x kWidth. Started, not waited for: a must not change until the wait.
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

// Rounds accumulators to the left operand of the next matmul: the layouts match.
template <typename T, int kTiles>
MTL_PTX void to_operand(uint32_t (&a)[kTiles / 2][4], const float (&sums)[kTiles][4]) {
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) operand_of<T>(a[n / 2], sums[n], sums[n + 1]);
}

// Barriers of a ring of kSlots slots: `full` when a slot's bytes have arrived, `empty` when all computing
// warps have released it; `resident` for tiles that stay.
template <int kSlots>
struct RingBarriers {
  uint64_t full[kSlots], empty[kSlots], resident;

  // By one thread, before a barrier of the block. arrivals_full: arrivals in addition to the bytes;
  // num_warps: number of computing warps.
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

// A position in the ring and the round: the parity of the phase that fills the slot.
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

// For the filling warp: in the first round no slot has to be released.
template <int kSlots>
MTL_PTX void wait_until_empty(RingBarriers<kSlots>& barriers, const RingPlace<kSlots>& place) {
  wait_for_phase(&barriers.empty[place.slot], place.parity ^ 1, place.slot);
}
template <int kSlots>
MTL_PTX void wait_until_full(RingBarriers<kSlots>& barriers, const RingPlace<kSlots>& place) {
  wait_for_phase(&barriers.full[place.slot], place.parity, place.slot);
}
// By a warp whose matmuls and loads no longer read the slot: an arrival covers only its own thread, so the
// warp synchronizes first.
template <int kSlots>
MTL_PTX void let_go(RingBarriers<kSlots>& barriers, const RingPlace<kSlots>& place) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(&barriers.empty[place.slot]);
}

// shown_keys, or 0 if all 64 keys are past the last one.
template <typename Arguments>
MTL_PTX uint64_t shown_keys_if_any(const Arguments& a, int batch, int first_key) {
  return first_key < positions_of(a).num_keys ? shown_keys(a, batch, first_key) : 0;
}

// Shared by the blocks of all kernels: one warp group that fills a ring of kSlots slots, two that compute 64
// rows each, and their register counts. A kernel's Shape derives from it and defines the offsets in shared
// memory of the ring (kRingAt, kSlotBytes) and the barriers (kBarriersAt).
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

// The prologue of every kernel. arrivals_full: see RingBarriers.
template <typename Shape>
MTL_PTX void begin_block(unsigned char* bytes, const PanelMaps& maps, int arrivals_full) {
  require_swizzle_alignment(bytes);
  if (threadIdx.x == 0) {
    prefetch(maps.full);
    barriers_of<Shape>(bytes).set_up(arrivals_full, Shape::kGroups * kWarps);
  }
  __syncthreads();
}

// By one thread: starts filling the next slot with all bytes of a tile as soon as no warp reads the previous
// one.
template <typename Shape, int kWidth, int kRows>
MTL_PTX void fill_slot(unsigned char* bytes, typename Shape::Place& place, const PanelMaps& maps, int vector, int first_row) {
  static_assert(Shape::kSlotBytes == HopperTile<kWidth, kRows>::kBytes);
  auto& barriers = barriers_of<Shape>(bytes);
  wait_until_empty(barriers, place);
  arrive_expecting(&barriers.full[place.slot], Shape::kSlotBytes);
  copy_tile<kWidth, kRows>(slot_at<Shape>(bytes, place), maps, vector, first_row, &barriers.full[place.slot]);
  place.advance();
}

// The computing group of a thread, and the first of its warp's 16 rows among the group's 64.
struct GroupPlace {
  int group, warp_row;
};
// kUniform: tells the compiler that a warp's lanes are in one group, so that it keeps tile addresses in
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
// Stores a packed sample's length in the arguments; if first_query is past it, the block has nothing to do.
template <typename Shape, typename Arguments>
MTL_PTX QueryBlock query_block_at(Arguments& a, int head_of_batch, int first_query) {
  const HeadPlace place = enter_head(a, head_of_batch);
  const KeyRange seen = query_range<Shape::kRows>(a, place.batch, first_query).any;
  return {first_query, seen.begin / Shape::kKeys, (max(seen.end, 0) + Shape::kKeys - 1) / Shape::kKeys, place};
}
// The same for a grid of a block for every tile of queries and every head.
template <typename Shape>
MTL_PTX QueryBlock query_block(AttentionArguments& a) {
  // the last queries attend to the most keys: they start first, so that no long block remains at the end
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Shape::kRows;
  return query_block_at<Shape>(a, static_cast<int>(blockIdx.y), first_query);
}

}  // namespace mtl::cuda

// Flash attention, backward, all three gradients in one pass, for Hopper (sm_90a) and heads of up to 128
// columns: five matmuls for every tile instead of the seven of hopper_query_gradient.cu and
// hopper_key_value_gradient.cu. Selected by MTL_CUDA_ATTENTION=fused-backward.
//
// A block has 128 keys and keeps the gradients of keys and values in registers, as in
// hopper_key_value_gradient.cu: two warp groups of 64 keys each. In addition, both groups write the gradients
// of the scores of a tile of 64 queries to shared memory, and one of them, the groups taking turns from tile
// to tile, multiplies them by the 128 keys. It adds the result to the tile's float32 sums in device memory
// when it is the block's turn (fused_backward_turns.cuh). The last block in turn rounds the sums.
//
// Two warps of the first warp group load queries, facts about them and what blocks have to know about a
// tile; each of the other two waits for the turns of one computing group and ends them, so that no computing
// warp waits for a distant memory.
#include "backends/cuda/attention/fused_backward_turns.cuh"
#include "backends/cuda/attention/hopper.h"
#include "backends/cuda/attention/query_facts.cuh"

namespace mtl::cuda {
namespace {

// Facts about a tile of queries that a block needs.
struct alignas(8) FusedTile {
  int query;   // its first one; -1 after the last tile
  int member;  // the head's place in its group
  int number;  // among all tiles
  int turn;    // of the block
  // bit g: all queries attend to all keys of group g; and kLastTurn
  uint32_t flags;
};
constexpr uint32_t kLastTurn = 4;

template <int kWidth>
struct HopperFusedBackward : HopperBlock<3, 56, 224> {
  static_assert(kRows == kKeysOfBlock);
  static constexpr int kLoadingWarps = 2;
  // queries at a time: both gradients at width 128 leave registers for 32
  static constexpr int kQueries = kWidth > 96 ? 32 : kTile;
  using Tile = HopperTile<kWidth, kTile>;  // of queries, keys, ...
  using ScoreTile = HopperTile<kTile, kTile>;  // gradients of the scores of a group's keys, which are its rows
  // a group's keys, or values; at the end their gradients, in padded rows
  static constexpr int kKeyBytes = kGroupRows * TileShape<kWidth>::kStride * 2;
  static_assert(kGroupRows == kTile && kKeyBytes % 1024 == 0 && Tile::kBytes % 1024 == 0);
  static constexpr int kValuesAt = kGroups * kKeyBytes, kRingAt = 2 * kValuesAt;
  static constexpr int kSlotBytes = 2 * Tile::kBytes;  // queries, and gradients of their output
  // two tiles of queries, for the keys of both groups
  static constexpr int kScoresAt = kRingAt + kSlots * kSlotBytes, kScoreBytes = kGroups * ScoreTile::kBytes;
  static constexpr int kFactsAt = kScoresAt + 2 * kScoreBytes;
  static constexpr int kTilesAt = kFactsAt + kSlots * static_cast<int>(sizeof(QueryFacts));
  static constexpr int kBarriersAt = kTilesAt + kSlots * static_cast<int>(sizeof(FusedTile));
  static constexpr int kHandedAt = kBarriersAt + static_cast<int>(sizeof(Barriers));
  static constexpr int kTurnsAt = kHandedAt + static_cast<int>(sizeof(RingBarriers<2>));
  static constexpr int kTicketAt = kTurnsAt + static_cast<int>(sizeof(RingBarriers<2>));
  static constexpr int kBytes = kTicketAt + static_cast<int>(sizeof(uint32_t));
  static_assert(kBytes <= kHopperSharedBytes);
};

// For two tiles of queries, the position is that of a RingPlace<2>: `full` when both groups have written the
// gradients of their scores, `empty` when the group that multiplies them has read them.
template <typename Shape>
MTL_PTX RingBarriers<2>& handed_at(unsigned char* bytes) {
  return *reinterpret_cast<RingBarriers<2>*>(bytes + Shape::kHandedAt);
}
// In the same positions: `full` when the turn has come, `empty` when the group has added its part.
template <typename Shape>
MTL_PTX RingBarriers<2>& turns_at(unsigned char* bytes) {
  return *reinterpret_cast<RingBarriers<2>*>(bytes + Shape::kTurnsAt);
}
template <typename Shape>
MTL_PTX QueryFacts& fused_facts_at(unsigned char* bytes, int slot) {
  return reinterpret_cast<QueryFacts*>(bytes + Shape::kFactsAt)[slot];
}
template <typename Shape>
MTL_PTX FusedTile& tile_at(unsigned char* bytes, int slot) {
  return reinterpret_cast<FusedTile*>(bytes + Shape::kTilesAt)[slot];
}

// A block's keys; `place` is the first head of a group.
struct FusedBlock {
  HeadPlace place;
  int first_key;
};

// Returns the block of a ticket's number: one head after the other, the last keys first. Stores a packed
// sample's length in the arguments; if first_key is past it, the block has nothing to do.
MTL_PTX FusedBlock fused_block(AttentionArguments& a, int number) {
  const int blocks_of_head = (a.sequence + kKeysOfBlock - 1) / kKeysOfBlock;
  const int head = number / blocks_of_head, from_last = number % blocks_of_head;
  return {enter_head(a, head * a.members), (blocks_of_head - 1 - from_last) * kKeysOfBlock};
}

template <typename Shape>
MTL_PTX int begin_fused_block(unsigned char* bytes, const BackwardMaps& maps, const FusedMemory& memory) {
  require_swizzle_alignment(bytes);
  uint32_t& ticket = *reinterpret_cast<uint32_t*>(bytes + Shape::kTicketAt);
  if (threadIdx.x == 0) {
    prefetch(maps.key.full);
    // a slot is released by the computing warps and by the two that keep turns
    barriers_of<Shape>(bytes).set_up(1 + Shape::kLoadingWarps, Shape::kGroups * kWarps + 2);
    handed_at<Shape>(bytes).set_up(Shape::kGroups * kWarps, kWarps);
    turns_at<Shape>(bytes).set_up(1, kWarps);
    ticket = take_ticket(memory.ticket);
  }
  __syncthreads();
  return static_cast<int>(ticket);
}

// By one thread: the block's keys and values.
template <typename Shape, int kWidth>
MTL_PTX void load_keys(unsigned char* bytes, const BackwardMaps& maps, const FusedBlock& block) {
  uint64_t* const resident = &barriers_of<Shape>(bytes).resident;
  arrive_expecting(resident, 2 * Shape::kGroups * Shape::Tile::kBytes);
#pragma unroll
  for (int group = 0; group < Shape::kGroups; ++group) {
    const int key = block.place.first_row + block.first_key + group * kTile;
    unsigned char* tile = bytes + group * Shape::kKeyBytes;
    copy_tile<kWidth, kTile>(tile, maps.key, vector_of(maps.key, block.place), key, resident);
    copy_tile<kWidth, kTile>(tile + Shape::kValuesAt, maps.value, vector_of(maps.value, block.place), key, resident);
  }
}

// Ends the filling of a slot by the loading warps.
template <typename Shape>
MTL_PTX void announce(unsigned char* bytes, typename Shape::Place& place) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(&barriers_of<Shape>(bytes).full[place.slot]);
  place.advance();
}

// By the loading warps: fills the next slot with a tile of queries.
template <typename Shape, int kWidth>
MTL_PTX void load_queries(unsigned char* bytes, typename Shape::Place& place, const BackwardMaps& maps, const AttentionArguments& a,
                          const HeadPlace& head, const FusedTile& tile) {
  auto& barriers = barriers_of<Shape>(bytes);
  const int thread = static_cast<int>(threadIdx.x), row = head.first_row + tile.query;
  wait_until_empty(barriers, place);
  if (thread == 0) {
    unsigned char* queries = slot_at<Shape>(bytes, place);
    uint64_t* const full = &barriers.full[place.slot];
    arrive_expecting(full, Shape::kSlotBytes);
    copy_tile<kWidth, kTile>(queries, maps.query, vector_of(maps.query, head), row, full);
    copy_tile<kWidth, kTile>(queries + Shape::Tile::kBytes, maps.output_gradient, vector_of(maps.output_gradient, head), row, full);
    tile_at<Shape>(bytes, place.slot) = tile;
  }
  load_facts(fused_facts_at<Shape>(bytes, place.slot), a, head, tile.query, thread);
  announce<Shape>(bytes, place);
}

// By the loading warps: all tiles of queries that attend to one of the block's keys, one head of the group
// after the other.
template <typename Shape, int kWidth>
MTL_PTX void load_all(unsigned char* bytes, const BackwardMaps& maps, const AttentionArguments& a, const FusedBlock& block,
                      const FusedMemory& memory) {
  if (threadIdx.x == 0) load_keys<Shape, kWidth>(bytes, maps, block);
  const int batch = block.place.batch, number = block.first_key / kKeysOfBlock;
  uint32_t shown = 0;  // bit g: no key of group g is masked
#pragma unroll
  for (int group = 0; group < Shape::kGroups; ++group) {
    if (shown_keys_if_any(a, batch, block.first_key + group * kTile) == ~uint64_t{0}) shown |= 1u << group;
  }
  typename Shape::Place place;
#pragma unroll 1
  for (HeadPlace head = block.place; head.member < a.members; enter_next_member(a, head)) {
    const int first_tile = first_tile_of(a, memory, head);
#pragma unroll 1
    for (int query = a.causal ? block.first_key : 0; query < a.sequence; query += kTile) {
      const QueryRange range = query_range<kTile>(a, batch, query);
      const KeyBlocks adding = blocks_of(range.any);
      if (number < adding.begin || number >= adding.end) continue;
      uint32_t flags = number == adding.begin ? kLastTurn : 0;
#pragma unroll
      for (int group = 0; group < Shape::kGroups; ++group) {
        const int first = block.first_key + group * kTile;
        if (first >= range.all.begin && first + kTile <= range.all.end) flags |= shown & 1u << group;
      }
      load_queries<Shape, kWidth>(bytes, place, maps, a, head, {query, head.member, first_tile + query / kTile, adding.end - 1 - number, flags});
    }
  }
  auto& barriers = barriers_of<Shape>(bytes);
  wait_until_empty(barriers, place);
  if (threadIdx.x == 0) {
    tile_at<Shape>(bytes, place.slot).query = -1;
    arrive(&barriers.full[place.slot]);
  }
  announce<Shape>(bytes, place);
}

// By one thread: waits for the turns of one of the computing groups, and ends them.
template <typename Shape>
MTL_PTX void keep_turns(unsigned char* bytes, const FusedMemory& memory, int group) {
  auto& barriers = barriers_of<Shape>(bytes);
  auto& turns = turns_at<Shape>(bytes);
  typename Shape::Place ring;
  RingPlace<2> tiles;
  for (;;) {
    const auto here = ring.take();
    wait_until_full(barriers, here);
    const FusedTile tile = tile_at<Shape>(bytes, here.slot);
    arrive(&barriers.empty[here.slot]);
    if (tile.query < 0) return;
    const RingPlace<2> now = tiles.take();
    if (now.slot != group) continue;
    uint32_t* const turns_over = memory.turns_over + tile.number;
    wait_for_count(turns_over, static_cast<uint32_t>(tile.turn));
    arrive(&turns.full[group]);
    wait_for_phase(&turns.empty[group], now.parity, group);
    add_to_count(turns_over);
  }
}

template <int kWidth>
struct Gradients {
  float keys[kWidth / 8][4] = {}, values[kWidth / 8][4] = {};
};

// Writes the gradients of a group's scores, of kQueries queries from `column` on, to the tile that the query
// gradient's matmul reads: rows of 64 queries in the layout of the 128-byte swizzle, one for each key.
template <int kQueries>
MTL_PTX void hand_over(unsigned char* tile, const uint32_t (&gradients)[kQueries / 16][4], int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32, row = static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16 + lane / 4;
#pragma unroll
  for (int n = 0; n < kQueries / 16; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int unit = column / 8 + 2 * n + i / 2;  // of 16 bytes
      unsigned char* const to = tile + (row + i % 2 * 8) * 128 + (unit ^ row % 8) * 16 + lane % 4 * 4;
      in_one_access<uint32_t>(to) = gradients[n][i];
    }
  }
}

// Adds to the gradients of a warp group's keys the contribution of kQueries queries of a tile, from `column`
// on, and hands over the gradients of their scores.
template <typename T, int kWidth>
MTL_PTX void add_queries(Gradients<kWidth>& sums, unsigned char* scores_to, const unsigned char* key_tile,
                         const unsigned char* query_tile, const AttentionArguments& a, const QueryFacts& facts, const Keys& keys,
                         int first_query, int column, bool whole) {
  using Shape = HopperFusedBackward<kWidth>;
  constexpr int kQueries = Shape::kQueries;
  const int lane = static_cast<int>(threadIdx.x) % 32, key_row = static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16 + lane / 4;
  const unsigned char* gradient_tile = query_tile + Shape::Tile::kBytes;
  float scores[kQueries / 8][4], gradients[kQueries / 8][4];
  uint32_t probabilities[kQueries / 16][4], score_gradients[kQueries / 16][4];
  hold(scores);
  fence_wgmma();
  start_scores<T, kWidth, kTile, kQueries>(scores, key_tile, query_tile, column);
  commit_wgmma();
  hold(gradients);
  fence_wgmma();
  start_scores<T, kWidth, kTile, kQueries>(gradients, key_tile + Shape::kValuesAt, gradient_tile, column);
  commit_wgmma();
  wait_for_wgmma<1>();
  hold(scores);
  to_probabilities<kQueries>(scores, a, facts, keys, key_row, first_query, column, whole);
  to_operand<T>(probabilities, scores);
  wait_for_wgmma<0>();
  hold(gradients);
  hold(sums.values);
  hold(probabilities);
  fence_wgmma();
  start_weighted_sum<T, kWidth, kTile, kQueries>(sums.values, probabilities, gradient_tile, column);
  commit_wgmma();
  to_score_gradients<false, kQueries>(gradients, scores, a, facts, column);
  to_operand<T>(score_gradients, gradients);
  hand_over<kQueries>(scores_to, score_gradients, column);
  hold(sums.keys);
  hold(score_gradients);
  fence_wgmma();
  start_weighted_sum<T, kWidth, kTile, kQueries>(sums.keys, score_gradients, query_tile, column);
  commit_wgmma();
  wait_for_wgmma<0>();
  hold(sums.keys);
  hold(sums.values);
  hold(probabilities);
  hold(score_gradients);
}

// part += the tile's gradients of scores, transposed, by the block's keys: 64 queries x kWidth.
template <typename T, int kWidth>
MTL_PTX void multiply_by_keys(float (&part)[kWidth / 8][4], const unsigned char* score_tile, const unsigned char* key_tile) {
  using Shape = HopperFusedBackward<kWidth>;
  using Tile = typename Shape::Tile;
  hold(part);
  fence_wgmma();
#pragma unroll
  for (int key = 0; key < Shape::kRows; key += 16) {
    const int group = key / kTile, row = key % kTile;
    const uint32_t scores = shared_address(score_tile) + key * 128, keys = shared_address(key_tile) + group * Shape::kKeyBytes;
    const uint64_t a = matrix_descriptor(scores, 16, 8 * 128, Swizzle::k128);
    const uint64_t full = matrix_descriptor(keys + row * Tile::kRowBytes, Tile::kPanelBytes, 8 * Tile::kRowBytes, Swizzle::k128);
    auto& of_full = reinterpret_cast<float(&)[8 * Tile::kFull][4]>(part);
    WarpGroupMatmul<T, 64 * Tile::kFull>::both_by_columns(of_full, a, full, true);
    if constexpr (Tile::kRest > 0) {
      const uint64_t rest = matrix_descriptor(keys + Tile::kRestAt + row * Tile::kRestRowBytes, 16, 8 * Tile::kRestRowBytes, Tile::kRestSwizzle);
      auto& of_rest = reinterpret_cast<float(&)[Tile::kRest / 8][4]>(part[8 * Tile::kFull]);
      WarpGroupMatmul<T, Tile::kRest>::both_by_columns(of_rest, a, rest, true);
    }
  }
  commit_wgmma();
  wait_for_wgmma<0>();
  hold(part);
}

// By a warp in its turn: adds its 16 rows to a tile's sums.
template <int kWidth>
MTL_PTX void add_part(const float (&part)[kWidth / 8][4], const FusedMemory& memory, const FusedTile& tile) {
  const bool is_first = tile.turn == 0;  // nothing has been stored there
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
    float4* const to = sums_at<kWidth>(memory, tile.number, n);
    if (is_first) {
      in_one_access<float4>(to) = {part[n][0], part[n][1], part[n][2], part[n][3]};
    } else {
      add_four(to, part[n]);
    }
  }
}

// By a warp in the last turn, before the matmul: reads what the blocks before it have added to its 16 rows.
template <int kWidth>
MTL_PTX void load_sums(float (&part)[kWidth / 8][4], const FusedMemory& memory, const FusedTile& tile) {
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
    const float4 four = load_four(sums_at<kWidth>(memory, tile.number, n));
    part[n][0] = four.x;
    part[n][1] = four.y;
    part[n][2] = four.z;
    part[n][3] = four.w;
  }
}

// By a warp in the last turn: stores its 16 rows of the query gradient. Four lanes write 16 bytes of a row at
// a time, once per tile of queries.
template <typename T, int kWidth>
MTL_PTX void store_sums(const float (&sums)[kWidth / 8][4], const AttentionArguments& a, const HeadPlace& group, const FusedTile& tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32, column = lane % 4 * 2;
  const int query = tile.query + static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16 + lane / 4;
  T* const to = rows_of<T>(a.query_gradient, group) + tile.member * a.query_gradient.member + query * a.query_gradient.position + column;
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
    if (8 * n >= a.head_size) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (query + 8 * half >= a.sequence) continue;
      in_one_access<uint32_t>(to + 8 * half * a.query_gradient.position + 8 * n) =
          Numbers<T>::pack(sums[n][2 * half] * a.scale, sums[n][2 * half + 1] * a.scale);
    }
  }
}

// Adds to the query gradient of a tile what the block's keys contribute.
template <typename T, int kWidth>
MTL_PTX void add_to_queries(unsigned char* bytes, const RingPlace<2>& now, const AttentionArguments& a, const FusedBlock& block,
                            const FusedMemory& memory, const FusedTile& tile) {
  using Shape = HopperFusedBackward<kWidth>;
  const bool is_last = (tile.flags & kLastTurn) != 0;
  float part[kWidth / 8][4] = {};
  if (is_last) wait_until_full(turns_at<Shape>(bytes), now);
  if (is_last && tile.turn > 0) load_sums<kWidth>(part, memory, tile);
  wait_until_full(handed_at<Shape>(bytes), now);
  multiply_by_keys<T, kWidth>(part, bytes + Shape::kScoresAt + now.slot * Shape::kScoreBytes, bytes);
  let_go(handed_at<Shape>(bytes), now);
  if (is_last) {
    store_sums<T, kWidth>(part, a, block.place, tile);
  } else {
    wait_until_full(turns_at<Shape>(bytes), now);
    add_part<kWidth>(part, memory, tile);
  }
  let_go(turns_at<Shape>(bytes), now);
}

// Processes a warp group's keys over all queries that attend to the block's keys.
template <typename T, int kWidth>
MTL_PTX void accumulate(Gradients<kWidth>& sums, unsigned char* bytes, int group, const AttentionArguments& a, const FusedBlock& block,
                        const FusedMemory& memory) {
  using Shape = HopperFusedBackward<kWidth>;
  auto& barriers = barriers_of<Shape>(bytes);
  const int group_key = block.first_key + group * kTile;
  const Keys keys = {group_key, shown_keys_if_any(a, block.place.batch, group_key)};
  typename Shape::Place ring;
  RingPlace<2> tiles;
#pragma unroll 1
  for (;;) {
    const auto here = ring.take();
    wait_until_full(barriers, here);
    const FusedTile tile = tile_at<Shape>(bytes, here.slot);
    if (tile.query < 0) return;
    const RingPlace<2> now = tiles.take();
    unsigned char* const scores_to = bytes + Shape::kScoresAt + now.slot * Shape::kScoreBytes + group * Shape::ScoreTile::kBytes;
    wait_until_empty(handed_at<Shape>(bytes), now);
#pragma unroll 1
    for (int column = 0; column < kTile; column += Shape::kQueries) {
      add_queries<T, kWidth>(sums, scores_to, bytes + group * Shape::kKeyBytes, slot_at<Shape>(bytes, here), a,
                             fused_facts_at<Shape>(bytes, here.slot), keys, tile.query, column, (tile.flags >> group & 1) != 0);
    }
    let_go(barriers, here);
    fence_async_proxy();
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(&handed_at<Shape>(bytes).full[now.slot]);
    if (now.slot == group) add_to_queries<T, kWidth>(bytes, now, a, block, memory, tile);
  }
}

template <typename T, int kWidth>
__global__ void __launch_bounds__(HopperFusedBackward<kWidth>::kThreadsOfBlock, 1)
    hopper_fused_backward_kernel(const __grid_constant__ BackwardMaps maps, AttentionArguments a, FusedMemory memory) {
#if MTL_HOPPER_CODE
  using Shape = HopperFusedBackward<kWidth>;
  MTL_DYNAMIC_SHARED(bytes);
  const int number = begin_fused_block<Shape>(bytes, maps, memory);
  const FusedBlock block = fused_block(a, number);
  if (block.first_key >= a.sequence) return;  // past the end of a packed sample
  if (threadIdx.x < kGroupThreads) {
    give_registers_back<Shape::kProducerRegisters>();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp < Shape::kLoadingWarps) {
      load_all<Shape, kWidth>(bytes, maps, a, block, memory);
    } else if (threadIdx.x % 32 == 0) {
      keep_turns<Shape>(bytes, memory, warp - Shape::kLoadingWarps);
    }
    return;
  }
  take_registers<Shape::kConsumerRegisters>();
  const auto [group, warp_row] = group_place<true>();
  Gradients<kWidth> sums;
  wait_for_phase(&barriers_of<Shape>(bytes).resident, 0, -1);
  accumulate<T, kWidth>(sums, bytes, group, a, block, memory);
  // no warp of either group still reads keys and values: their shared memory is reused to reorder the
  // gradients
  meet(1, Shape::kGroups * kGroupThreads);
  const int first_row = block.first_key + group * kTile + warp_row, num_rows = a.sequence - first_row;
  T* scratch = reinterpret_cast<T*>(bytes + group * Shape::kKeyBytes) + warp_row * TileShape<kWidth>::kStride;
  const int64_t key_stride = a.key_gradient.position, value_stride = a.value_gradient.position;
  T* const to_keys = rows_of<T>(a.key_gradient, block.place) + first_row * key_stride;
  store_rows<T, kWidth>(to_keys, key_stride, num_rows, a.head_size, sums.keys, {a.scale, a.scale}, scratch);
  T* const to_values = rows_of<T>(a.value_gradient, block.place) + first_row * value_stride;
  store_rows<T, kWidth>(to_values, value_stride, num_rows, a.head_size, sums.values, {1.0f, 1.0f}, scratch);
#else
  __trap();  // code for another GPU; must not be mistaken for a result
#endif
}

// Writes zeros for queries of tiles that see no key: no block of keys stores their gradient. Only documents
// have them.
template <typename T>
__global__ void __launch_bounds__(kThreads) hopper_fused_backward_clearing_kernel(AttentionArguments a) {
  const HeadPlace place = enter_head(a, static_cast<int>(blockIdx.y));
  const int first_query = static_cast<int>(blockIdx.x) * kTile;
  if (first_query >= a.sequence) return;
  const KeyBlocks adding = blocks_of(query_range<kTile>(a, place.batch, first_query).any);
  if (adding.begin < adding.end) return;
  const int units = a.head_size / 8;  // of 16 bytes
  for (int i = static_cast<int>(threadIdx.x); i < kTile * units; i += kThreads) {
    const int query = first_query + i / units;
    if (query >= a.sequence) return;
    T* const to = rows_of<T>(a.query_gradient, place) + query * a.query_gradient.position + i % units * 8;
    in_one_access<uint4>(to) = {0, 0, 0, 0};
  }
}

template <typename T, int kWidth>
cudaError_t launch_passes(const AttentionArguments& a, const BackwardMaps& maps, const FusedMemory& memory, cudaStream_t stream) {
  using Shape = HopperFusedBackward<kWidth>;
  const unsigned heads = static_cast<unsigned>(a.batch * a.heads), tiles = static_cast<unsigned>((a.sequence + kTile - 1) / kTile);
  const unsigned key_blocks = static_cast<unsigned>((a.sequence + kKeysOfBlock - 1) / kKeysOfBlock);
  const Launch gradients = {dim3(key_blocks * (heads / static_cast<unsigned>(a.members))), Shape::kThreadsOfBlock, Shape::kBytes, stream};
  const cudaError_t status = MTL_LAUNCH((hopper_fused_backward_kernel<T, kWidth>), gradients, maps, a, memory);
  if (status != cudaSuccess || a.key_start == nullptr) return status;
  const Launch clearing = {dim3(tiles, heads), kThreads, 0, stream};
  return MTL_LAUNCH((hopper_fused_backward_clearing_kernel<T>), clearing, a);
}

}  // namespace

cudaError_t launch_hopper_fused_backward(const AttentionBackwardCall& call, const BackwardMaps& maps) {
  const AttentionArguments a = attention_arguments(call.problem);
  const FusedBackwardScratch scratch = fused_backward_scratch(call.problem);
  auto* const counters = static_cast<uint32_t*>(call.fused);
  auto* const sums = reinterpret_cast<float4*>(static_cast<char*>(call.fused) + scratch.counter_bytes);
  const FusedMemory memory = {counters, counters + 1, sums, static_cast<int>(scratch.tiles_of_head)};
  const cudaError_t status = cudaMemsetAsync(counters, 0, static_cast<size_t>(scratch.counter_bytes), call.stream);
  if (status != cudaSuccess) return status;
  return with_hopper_kernel<64, 80, 96, 128>(call.problem, [&](auto element, auto width, auto dropout) {
    if constexpr (decltype(dropout)::value) return cudaErrorNotSupported;
    return launch_passes<decltype(element), decltype(width)::value>(a, maps, memory, call.stream);
  });
}

}  // namespace mtl::cuda

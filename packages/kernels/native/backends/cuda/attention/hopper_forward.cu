// Flash attention, forward, for Hopper (sm_90a): the algorithm of attention_forward.cu with tiles of 128
// queries and of 128 keys, or 64 keys for wide heads. A block computes many tiles of queries
// (hopper_queries.cuh). One warp takes the tiles of queries and copies tiles of keys and values into a ring;
// two warp groups compute 64 queries each. Scores are computed from shared memory; the probabilities that
// weight the values stay in registers.
//
// The matmul for a tile's scores is started before the matmul with the previous tile's values: the tensor
// cores work on both while the softmax of the new scores is computed. The groups start their matmuls in
// turns. Tiles are loaded in the order of use: K0, K1, V0, K2, V1, ... The next queries are loaded when the
// last scores are there or, in wide heads, when the output is written; the first keys are loaded before that.
//
// spills allowed: 24 (bytes, with dropout only, at width 128: values computed before the loop and, in it, two
// loads per tile of 128 x 128 scores, for which Philox takes a thousand instructions)
#include <algorithm>
#include <type_traits>

#include "backends/cuda/attention/hopper.h"
#include "backends/cuda/attention/hopper_queries.cuh"
#include "backends/cuda/attention/online_softmax.cuh"

namespace mtl::cuda {
namespace {

// The number of tiles of queries that blocks have taken; 0 between launches.
__device__ uint32_t num_tickets;

constexpr int num_slots(int width) { return width <= 128 ? 4 : width == 192 ? 6 : 5; }

// The loading group has 40 registers per thread: the list of tiles needs more than 24.
template <int kWidth>
struct HopperForward : HopperBlock<num_slots(kWidth), 40, 232> {
  using Block = HopperBlock<num_slots(kWidth), 40, 232>;
  using Barriers = QueryBarriers<Block::kSlots>;
  // an output of 192 or 256 columns leaves registers for the scores of only 64 keys
  static constexpr int kKeys = kWidth <= 128 ? 128 : 64;
  using Queries = HopperTile<kWidth, Block::kGroupRows>;
  // bytes of a group's output, in padded rows; in wide heads the output overwrites the queries, because no
  // other memory is left
  static constexpr int kOutputBytes = Block::kGroupRows * TileShape<kWidth>::kStride * 2;
  static constexpr bool kOutputOverQueries = kWidth > 128;
  static constexpr int kQueryBytes = kOutputOverQueries ? kOutputBytes : Queries::kBytes;  // per group
  static constexpr int kSlotBytes = HopperTile<kWidth, kKeys>::kBytes;                     // keys, or values
  static_assert(kQueryBytes % 1024 == 0 && kSlotBytes % 1024 == 0);
  static constexpr int kRingAt = Block::kGroups * kQueryBytes, kOutputAt = kRingAt + Block::kSlots * kSlotBytes;
  static constexpr int kWorkAt = kOutputAt + (kOutputOverQueries ? 0 : Block::kGroups * kOutputBytes);
  static constexpr int kBarriersAt = kWorkAt + 2 * static_cast<int>(sizeof(QueryWork));
  static constexpr int kBytes = kBarriersAt + static_cast<int>(sizeof(Barriers));
  static_assert(kBytes <= kHopperSharedBytes);
};

// Returns one of two descriptions of work, used in turns: the loading warp is at most one tile of queries
// ahead.
template <int kWidth>
MTL_PTX QueryWork& work_at(unsigned char* bytes, int parity) {
  return reinterpret_cast<QueryWork*>(bytes + HopperForward<kWidth>::kWorkAt)[parity];
}

// Called by one thread: loads the next queries as soon as no warp reads the previous ones, and describes
// them.
template <int kWidth>
MTL_PTX void load_queries(unsigned char* bytes, const ForwardMaps& maps, const QueryWork& work, int parity) {
  using Shape = HopperForward<kWidth>;
  auto& barriers = barriers_of<Shape>(bytes);
  const HeadPlace& head = work.block.place;
  wait_for_phase(&barriers.released, parity ^ 1, -1);
  work_at<kWidth>(bytes, parity) = work;
  arrive_expecting(&barriers.resident, Shape::kGroups * Shape::Queries::kBytes);
#pragma unroll
  for (int group = 0; group < Shape::kGroups; ++group) {
    copy_tile<kWidth, Shape::kGroupRows>(bytes + group * Shape::kQueryBytes, maps.query, vector_of(maps.query, head),
                                         head.first_row + work.block.first_query + group * Shape::kGroupRows, &barriers.resident);
  }
}

// Called by one thread: copies all tiles of keys and values for a tile of queries. The first keys do not wait
// until the previous queries are released; if the queries are released late (kOutputOverQueries), the second
// keys and the first values do not wait either.
template <int kWidth>
MTL_PTX void load_tiles(unsigned char* bytes, typename HopperForward<kWidth>::Place& place, const ForwardMaps& maps,
                        const QueryWork& work, int parity) {
  using Shape = HopperForward<kWidth>;
  const QueryBlock& block = work.block;
  const int key = vector_of(maps.key, block.place), value = vector_of(maps.value, block.place);
  const auto fill = [&](const PanelMaps& of, int vector, int tile) {
    fill_slot<Shape, kWidth, Shape::kKeys>(bytes, place, of, vector, block.place.first_row + tile * Shape::kKeys);
  };
  const int ahead = min(block.first_tile + (Shape::kOutputOverQueries ? 1 : 0), block.end_tile - 1);
#pragma unroll 1
  for (int tile = block.first_tile; tile < block.end_tile; ++tile) {
    fill(maps.key, key, tile);
    if (tile > block.first_tile) fill(maps.value, value, tile - 1);
    if (tile == ahead) load_queries<kWidth>(bytes, maps, work, parity);
  }
  if (block.first_tile < block.end_tile) {
    fill(maps.value, value, block.end_tile - 1);
  } else {
    load_queries<kWidth>(bytes, maps, work, parity);
  }
}

// Called by one warp: takes tiles of queries and loads them, until no tile is left.
template <int kWidth, typename Arguments>
MTL_PTX void produce(unsigned char* bytes, const ForwardMaps& maps, Arguments& a, const QueryList& list) {
  using Shape = HopperForward<kWidth>;
  typename Shape::Place place;
  const bool is_loader = threadIdx.x == 0;
  int parity = 0;
#pragma unroll 1
  for (;;) {
    // Takes the ticket after the loads: a ticket that is taken earlier would keep a tile from blocks that
    // finish earlier. After the loads, one and a half tiles of keys are still in the ring; computing them
    // takes longer than taking a ticket.
    const int ticket = is_loader ? take_tile(&num_tickets, list.count()) : 0;
    const int number = __shfl_sync(kWholeWarp, ticket, 0);
    if (number >= list.count()) break;
    const QueryTile taken = tile_of_list(list, number);
    const QueryBlock block = query_block_at<Shape>(a, taken.head, taken.tile * Shape::kRows);
    if (block.first_query >= a.sequence) continue;  // past the end of a packed sample
    if (is_loader) load_tiles<kWidth>(bytes, place, maps, {block, a.sequence}, parity);
    parity ^= 1;
  }
  if (!is_loader) return;
  auto& barriers = barriers_of<Shape>(bytes);
  wait_for_phase(&barriers.released, parity ^ 1, -1);
  work_at<kWidth>(bytes, parity).sequence = 0;
  arrive(&barriers.resident);
}

// The state of a computing thread for its rows.
struct Rows {
  int batch, query;  // the thread's first row; its second row is 8 below
  QueryRange range;  // range of keys that the queries of the thread's group attend to
  DropoutSite site;
  float scale_log2;
};

// Updates the rows' running maximum and sum with a tile of scores and converts the tile to probabilities.
// Does not update the output: `shrink` receives the factors to multiply it by.
template <bool kDropout, int kWidth, int kTiles, typename Arguments>
MTL_PTX void take_scores(float (&scores)[kTiles][4], RunningRows<kWidth>& rows, float (&shrink)[2], const Arguments& a,
                         const Rows& of, int first_key) {
  constexpr int kParts = kTiles * 8 / kTile;  // of 64 keys, the unit of masks and dropout
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    auto& scores_of_part = reinterpret_cast<float(&)[kTile / 8][4]>(scores[part * kTile / 8]);
    const int first = first_key + part * kTile;
    const KeyTile tile = {first, shown_keys_if_any(a, of.batch, first)};
    if (!all_visible(of.range, tile)) {
      hide(scores_of_part, {keys_of_query(a, of.batch, of.query), keys_of_query(a, of.batch, of.query + 8)}, tile);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) shrink[half] = rows.absorb_row(scores, half, of.scale_log2);
  if constexpr (kDropout) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      auto& scores_of_part = reinterpret_cast<float(&)[kTile / 8][4]>(scores[part * kTile / 8]);
      drop(scores_of_part, 0, of.site, of.query, first_key + part * kTile);
      drop(scores_of_part, 1, of.site, of.query + 8, first_key + part * kTile);
    }
  }
}

// Waits for the group's turn to start the matmuls of a tile: the matmuls of one group run while the other
// group computes its softmax. Both groups have the same number of turns: one for each tile of keys except the
// first of each tile of queries. A turn is a barrier where the group waits and the other one only arrives.
// Not used with dropout: Philox takes longer than the matmuls, and needs the registers that would keep the
// group's number.
template <int kWidth>
MTL_PTX void wait_for_turn(int group) {
  meet(3 + group, HopperForward<kWidth>::kGroups * kGroupThreads);
}
template <int kWidth>
MTL_PTX void give_turn_to(int group) {
  announce(3 + group, HopperForward<kWidth>::kGroups * kGroupThreads);
}

// Called by a warp that no longer reads the queries.
template <int kWidth>
MTL_PTX void release_queries(unsigned char* bytes) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(&barriers_of<HopperForward<kWidth>>(bytes).released);
}

// Computes a warp group's queries over the tiles [first_tile, end_tile), at least one tile.
template <typename T, int kWidth, bool kDropout, typename Arguments>
MTL_PTX void attend(RunningRows<kWidth>& rows, typename HopperForward<kWidth>::Place& ring, unsigned char* bytes,
                    int group, const Arguments& a, const Rows& of, int first_tile, int end_tile) {
  using Shape = HopperForward<kWidth>;
  constexpr int kKeys = Shape::kKeys;
  const unsigned char* query_tile = bytes + group * Shape::kQueryBytes;
  auto& barriers = barriers_of<Shape>(bytes);
  const auto tile_at = [&](const typename Shape::Place& place) { return slot_at<Shape>(bytes, place); };
  float scores[kKeys / 8][4], shrink[2];
  uint32_t probabilities[kKeys / 16][4];
  const auto first = ring.take();
  wait_until_full(barriers, first);
  hold(scores);
  fence_wgmma();
  start_scores<T, kWidth, kKeys>(scores, query_tile, tile_at(first));
  commit_wgmma();
  wait_for_wgmma<0>();
  hold(scores);
  let_go(barriers, first);
  take_scores<kDropout>(scores, rows, shrink, a, of, first_tile * kKeys);
  to_operand<T>(probabilities, scores);
#pragma unroll 1
  for (int tile = first_tile + 1; tile < end_tile; ++tile) {
    const auto keys = ring.take(), values = ring.take();
    wait_until_full(barriers, keys);
    if constexpr (!kDropout) wait_for_turn<kWidth>(group);
    hold(scores);
    fence_wgmma();
    start_scores<T, kWidth, kKeys>(scores, query_tile, tile_at(keys));
    commit_wgmma();
    wait_until_full(barriers, values);
    hold(rows.output);
    hold(probabilities);
    fence_wgmma();
    start_weighted_sum<T, kWidth, kKeys>(rows.output, probabilities, tile_at(values));
    commit_wgmma();
    if constexpr (!kDropout) give_turn_to<kWidth>(1 - group);
    wait_for_wgmma<1>();
    hold(scores);
    let_go(barriers, keys);
    take_scores<kDropout>(scores, rows, shrink, a, of, tile * kKeys);
    wait_for_wgmma<0>();
    hold(rows.output);
    hold(probabilities);
    let_go(barriers, values);
#pragma unroll
    for (int half = 0; half < 2; ++half) rows.rescale(half, shrink[half]);
    to_operand<T>(probabilities, scores);
  }
  if constexpr (!Shape::kOutputOverQueries) release_queries<kWidth>(bytes);
  const auto last = ring.take();
  wait_until_full(barriers, last);
  hold(rows.output);
  hold(probabilities);
  fence_wgmma();
  start_weighted_sum<T, kWidth, kKeys>(rows.output, probabilities, tile_at(last));
  commit_wgmma();
  wait_for_wgmma<0>();
  hold(rows.output);
  hold(probabilities);
  let_go(barriers, last);
}

// Called by a warp: writes the warp's rows. The next queries may be loaded afterwards and overwrite the
// stored rows.
template <typename T, int kWidth, typename Arguments>
MTL_PTX void finish_work(unsigned char* bytes, const Arguments& a, const QueryWork& work, RunningRows<kWidth>& rows,
                         int group, int warp_row) {
  using Shape = HopperForward<kWidth>;
  unsigned char* const output = bytes + (Shape::kOutputOverQueries ? 0 : Shape::kOutputAt) + group * Shape::kOutputBytes;
  // no warp of the group still reads the queries
  if constexpr (Shape::kOutputOverQueries) meet(1 + group, kGroupThreads);
  finish_rows<T, kWidth>(a, work.block.place, rows, work.block.first_query + group * Shape::kGroupRows + warp_row,
                         reinterpret_cast<T*>(output) + warp_row * TileShape<kWidth>::kStride);
  if constexpr (Shape::kOutputOverQueries) {
    fence_async_proxy();
    release_queries<kWidth>(bytes);
  }
}

// Called by a computing warp: processes all tiles of queries of its block; its group computes 64 queries of
// each tile.
template <typename T, int kWidth, bool kDropout, typename Arguments>
MTL_PTX void compute(unsigned char* bytes, Arguments& a) {
  using Shape = HopperForward<kWidth>;
  // with dropout there are no registers for the values that the compiler would keep: it would spill 100 bytes
  const auto [group, warp_row] = group_place<!kDropout>();
  typename Shape::Place ring;
  if (!kDropout && group == 1) give_turn_to<kWidth>(0);
#pragma unroll 1
  for (int parity = 0;; parity ^= 1) {
    wait_for_phase(&barriers_of<Shape>(bytes).resident, parity, -1);
    const QueryWork& work = work_at<kWidth>(bytes, parity);
    a.sequence = uniform(work.sequence);
    if (a.sequence == 0) break;
    const HeadPlace place = work.block.place;
    const int group_query = work.block.first_query + group * Shape::kGroupRows;
    const Rows of = {place.batch, group_query + warp_row + static_cast<int>(threadIdx.x) % 32 / 4,
                     query_range<Shape::kGroupRows>(a, place.batch, group_query), dropout_site(a, place), a.scale * kLog2E};
    const int first_tile = uniform(work.block.first_tile), end_tile = uniform(work.block.end_tile);
    RunningRows<kWidth> rows;
    if (first_tile < end_tile) {
      attend<T, kWidth, kDropout>(rows, ring, bytes, group, a, of, first_tile, end_tile);
    } else if constexpr (!Shape::kOutputOverQueries) {
      release_queries<kWidth>(bytes);
    }
    finish_work<T, kWidth>(bytes, a, work, rows, group, warp_row);
  }
  if (!kDropout && group == 0) wait_for_turn<kWidth>(0);  // waits for the turn that the other group gave last
}

template <typename T, int kWidth, bool kDropout, typename Arguments>
__global__ void __launch_bounds__(HopperForward<kWidth>::kThreadsOfBlock, 1)
    hopper_attention_forward_kernel(const __grid_constant__ ForwardMaps maps, Arguments a, QueryList list) {
#if MTL_HOPPER_CODE
  using Shape = HopperForward<kWidth>;
  MTL_DYNAMIC_SHARED(bytes);
  begin_block<Shape>(bytes, maps.query, 1);
  if (threadIdx.x < kGroupThreads) {
    give_registers_back<Shape::kProducerRegisters>();
    if (threadIdx.x < 32) produce<kWidth>(bytes, maps, a, list);
    return;
  }
  take_registers<Shape::kConsumerRegisters>();
  compute<T, kWidth, kDropout>(bytes, a);
#else
  __trap();  // compiled for another GPU; must not return wrong results
#endif
}

// Launches kernels for parts of sequences only without dropout: with dropout, a kernel would spill 68 bytes
// at width 128.
template <typename Arguments>
cudaError_t launch_arguments(const AttentionForwardCall& call) {
  const AttentionProblem& problem = call.problem;
  ForwardMaps maps;
  cudaError_t status = make_panel_maps(&maps.query, problem.query, problem.num_queries, problem);
  if (status == cudaSuccess) status = make_panel_maps(&maps.key, problem.key, problem.num_keys, problem);
  if (status == cudaSuccess) status = make_panel_maps(&maps.value, problem.value, problem.num_keys, problem);
  if (status != cudaSuccess) return status;
  const Arguments a = {attention_arguments(problem)};
  constexpr bool kPart = !std::is_same_v<Arguments, WholeArguments>;
  return with_hopper_kernel<64, 80, 96, 128, 192, 256>(problem, [&](auto element, auto width, auto dropout) {
    constexpr int kWidth = decltype(width)::value;
    using Shape = HopperForward<kWidth>;
    const QueryList list = query_list(problem, Shape::kRows);
    const Launch how = {static_cast<unsigned>(std::min(list.count(), num_multiprocessors())), Shape::kThreadsOfBlock,
                        Shape::kBytes, call.stream};
    if constexpr (kPart && decltype(dropout)::value) {
      return cudaErrorNotSupported;
    } else {
      return MTL_LAUNCH((hopper_attention_forward_kernel<decltype(element), kWidth, decltype(dropout)::value, Arguments>), how, maps, a, list);
    }
  });
}

}  // namespace

cudaError_t launch_hopper_attention_forward(const AttentionForwardCall& call) {
  return is_part(call.problem, call.problem.output) ? launch_arguments<AttentionArguments>(call) : launch_arguments<WholeArguments>(call);
}

}  // namespace mtl::cuda

// Flash attention, backward, gradient of the queries, for Hopper (sm_90a): the algorithm of
// attention_query_gradient.cu with 128 queries per block. One warp group copies keys and values into a ring;
// two warp groups keep the gradient of 64 queries each in registers.
//
// The matmul that adds a tile's keys to the gradient is waited for only after the scores of the next tile
// have been started.
#include "backends/cuda/attention/hopper.h"
#include "backends/cuda/attention/hopper_tiles.cuh"
#include "backends/cuda/attention/query_statistics.cuh"
#include "backends/cuda/attention/results.cuh"

namespace mtl::cuda {
namespace {

constexpr int num_slots(int width) { return width <= 128 ? 6 : width == 192 ? 5 : 3; }

template <int kWidth>
struct HopperQueryGradient : HopperBlock<num_slots(kWidth), 24, 240> {
  using Block = HopperBlock<num_slots(kWidth), 24, 240>;
  // true if the keys of a tile are released while the next tile is processed; at width 256 this would leave
  // no slot for copying ahead
  static constexpr bool kAcross = kWidth <= 192;
  // keys of a tile: the registers per thread for scores, their gradients and the sums are then 192 at widths
  // 64 and 256, and 160 at 96, 128 and 192
  static constexpr int kKeys = kWidth <= 80 ? 128 : 64;
  using Queries = HopperTile<kWidth, Block::kGroupRows>;
  // offsets of a group's memory: the queries, followed by the gradients of the output; at the end the
  // gradient of the queries, in padded rows
  static constexpr int kGradientsAt = Queries::kBytes, kQueryBytes = 2 * Queries::kBytes;
  static_assert(Block::kGroupRows * TileShape<kWidth>::kStride * 2 <= kQueryBytes);
  static constexpr int kSlotBytes = HopperTile<kWidth, kKeys>::kBytes;  // a slot holds keys, or values
  static_assert(kGradientsAt % 1024 == 0 && kSlotBytes % 1024 == 0);
  static constexpr int kRingAt = Block::kGroups * kQueryBytes;
  static constexpr int kBarriersAt = kRingAt + Block::kSlots * kSlotBytes;
  static constexpr int kBytes = kBarriersAt + static_cast<int>(sizeof(typename Block::Barriers));
  static_assert(kBytes <= kHopperSharedBytes);
};

// Called by one thread: copies all tiles of the block.
template <int kWidth>
MTL_PTX void produce(unsigned char* bytes, const BackwardMaps& maps, const QueryBlock& block) {
  using Shape = HopperQueryGradient<kWidth>;
  auto& barriers = barriers_of<Shape>(bytes);
  const HeadPlace& head = block.place;
  const int position = head.first_row;
  arrive_expecting(&barriers.resident, 2 * Shape::kGroups * Shape::Queries::kBytes);
#pragma unroll
  for (int group = 0; group < Shape::kGroups; ++group) {
    const int query = position + block.first_query + group * Shape::kGroupRows;
    unsigned char* tile = bytes + group * Shape::kQueryBytes;
    copy_tile<kWidth, Shape::kGroupRows>(tile, maps.query, vector_of(maps.query, head), query, &barriers.resident);
    copy_tile<kWidth, Shape::kGroupRows>(tile + Shape::kGradientsAt, maps.output_gradient, vector_of(maps.output_gradient, head),
                                         query, &barriers.resident);
  }
  typename Shape::Place place;
  const int key = vector_of(maps.key, head), value = vector_of(maps.value, head);
#pragma unroll 1
  for (int tile = block.first_tile; tile < block.end_tile; ++tile) {
    fill_slot<Shape, kWidth, Shape::kKeys>(bytes, place, maps.key, key, position + tile * Shape::kKeys);
    fill_slot<Shape, kWidth, Shape::kKeys>(bytes, place, maps.value, value, position + tile * Shape::kKeys);
  }
}

// The state of a computing thread for its rows.
struct Rows {
  int batch, query;  // the thread's first row; its second row is 8 below
  QueryRange range;  // range of keys that the queries of the thread's group attend to
  DropoutSite site;
  Statistics known;
};

// Converts the scores of the thread's rows to probabilities.
template <int kTiles>
MTL_PTX void to_row_probabilities(float (&scores)[kTiles][4], const AttentionArguments& a, const Rows& of, int first_key) {
#pragma unroll
  for (int part = 0; part < kTiles * 8 / kTile; ++part) {
    auto& scores_of_part = reinterpret_cast<float(&)[kTile / 8][4]>(scores[part * kTile / 8]);
    const int first = first_key + part * kTile;
    const KeyTile tile = {first, shown_keys_if_any(a, of.batch, first)};
    if (!all_visible(of.range, tile)) hide(scores_of_part, of.known.ranges, tile);
  }
  const float scale_log2 = a.scale * kLog2E;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n][i] = fast_exp2(scores[n][i] * scale_log2 - of.known.log_sum_exp[i / 2]);
  }
}

// Converts the gradients of the probabilities after dropout to gradients of the scores, which replace the
// probabilities.
template <bool kDropout, int kTiles>
MTL_PTX void to_row_gradients(float (&probabilities)[kTiles][4], float (&gradients)[kTiles][4], const AttentionArguments& a,
                              const Rows& of, int first_key) {
  if constexpr (kDropout) {
#pragma unroll
    for (int part = 0; part < kTiles * 8 / kTile; ++part) {
      auto& gradients_of_part = reinterpret_cast<float(&)[kTile / 8][4]>(gradients[part * kTile / 8]);
      const int query = a.first_query + of.query, key = a.first_key + first_key + part * kTile;
      drop(gradients_of_part, 0, of.site, query, key);
      drop(gradients_of_part, 1, of.site, query + 8, key);
    }
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float gradient = kDropout ? gradients[n][i] * a.inverse_keep : gradients[n][i];
      probabilities[n][i] *= gradient - of.known.delta[i / 2];
    }
  }
}

// Computes the gradient of a warp group's queries over all tiles of keys.
template <typename T, int kWidth, bool kDropout>
MTL_PTX void accumulate(float (&sums)[kWidth / 8][4], unsigned char* bytes, const unsigned char* query_tile,
                        const AttentionArguments& a, const Rows& of, const QueryBlock& block) {
  using Shape = HopperQueryGradient<kWidth>;
  constexpr int kKeys = Shape::kKeys;
  constexpr bool kAcross = Shape::kAcross;
  auto& barriers = barriers_of<Shape>(bytes);
  const auto tile_at = [&](const typename Shape::Place& place) { return slot_at<Shape>(bytes, place); };
  typename Shape::Place ring, keys_before;
  float scores[kKeys / 8][4], gradients[kKeys / 8][4];
  uint32_t score_gradients[kKeys / 16][4];
#pragma unroll 1
  for (int tile = block.first_tile; tile < block.end_tile; ++tile) {
    const auto keys = ring.take(), values = ring.take();
    wait_until_full(barriers, keys);
    hold(scores);
    fence_wgmma();
    start_scores<T, kWidth, kKeys>(scores, query_tile, tile_at(keys));
    commit_wgmma();
    wait_until_full(barriers, values);
    hold(gradients);
    fence_wgmma();
    start_scores<T, kWidth, kKeys>(gradients, query_tile + Shape::kGradientsAt, tile_at(values));
    commit_wgmma();
    wait_for_wgmma<1>();  // until these scores and the previous tile's sums are complete
    hold(scores);
    if constexpr (kAcross) {
      hold(sums);
      hold(score_gradients);
      if (tile > block.first_tile) let_go(barriers, keys_before);
    }
    to_row_probabilities(scores, a, of, tile * kKeys);
    wait_for_wgmma<0>();
    hold(gradients);
    let_go(barriers, values);
    to_row_gradients<kDropout>(scores, gradients, a, of, tile * kKeys);
    to_operand<T>(score_gradients, scores);
    hold(sums);
    hold(score_gradients);
    fence_wgmma();
    start_weighted_sum<T, kWidth, kKeys>(sums, score_gradients, tile_at(keys));
    commit_wgmma();
    if constexpr (kAcross) {
      keys_before = keys;
    } else {
      wait_for_wgmma<0>();
      hold(sums);
      hold(score_gradients);
      let_go(barriers, keys);
    }
  }
  if constexpr (kAcross) {
    wait_for_wgmma<0>();
    hold(sums);
    hold(score_gradients);
  }
}

template <typename T, int kWidth, bool kDropout>
__global__ void __launch_bounds__(HopperQueryGradient<kWidth>::kThreadsOfBlock, 1)
    hopper_attention_query_gradient_kernel(const __grid_constant__ BackwardMaps maps, AttentionArguments a) {
#if MTL_HOPPER_CODE
  using Shape = HopperQueryGradient<kWidth>;
  MTL_DYNAMIC_SHARED(bytes);
  const QueryBlock block = query_block<Shape>(a);
  if (block.first_query >= a.sequence) return;  // past the end of a packed sample
  begin_block<Shape>(bytes, maps.query, 1);
  if (threadIdx.x < kGroupThreads) {
    give_registers_back<Shape::kProducerRegisters>();
    if (threadIdx.x == 0) produce<kWidth>(bytes, maps, block);
    return;
  }
  take_registers<Shape::kConsumerRegisters>();
  const auto [group, warp_row] = group_place<true>();
  const int group_query = block.first_query + group * Shape::kGroupRows, warp_query = group_query + warp_row;
  const int query = warp_query + static_cast<int>(threadIdx.x) % 32 / 4;
  unsigned char* query_tile = bytes + group * Shape::kQueryBytes;
  const HeadPlace& place = block.place;
  const Rows of = {place.batch, query, query_range<Shape::kGroupRows>(a, place.batch, group_query), dropout_site(a, place),
                   statistics_of(a, place, query)};
  float sums[kWidth / 8][4] = {};
  wait_for_phase(&barriers_of<Shape>(bytes).resident, 0, -1);
  accumulate<T, kWidth, kDropout>(sums, bytes, query_tile, a, of, block);
  // no warp of the group still reads the queries: their shared memory is reused to reorder the gradient
  meet(1 + group, kGroupThreads);
  store_results<T, kWidth>(a, a.query_gradient, place, warp_query, a.sequence - warp_query, 0, sums, {a.scale, a.scale},
                           reinterpret_cast<T*>(query_tile) + warp_row * TileShape<kWidth>::kStride, a.accumulate);
#else
  __trap();  // compiled for another GPU; must not return wrong results
#endif
}

}  // namespace

cudaError_t launch_hopper_attention_query_gradient(const AttentionBackwardCall& call, const BackwardMaps& maps) {
  const AttentionArguments a = attention_arguments(call.problem);
  return with_hopper_kernel<64, 80, 96, 128, 192, 256>(call.problem, [&](auto element, auto width, auto dropout) {
    constexpr int kWidth = decltype(width)::value;
    const Launch how = hopper_launch<HopperQueryGradient<kWidth>>(a, a.sequence, a.heads, call.stream);
    return MTL_LAUNCH((hopper_attention_query_gradient_kernel<decltype(element), kWidth, decltype(dropout)::value>), how, maps, a);
  });
}

}  // namespace mtl::cuda

// Flash attention, backward, gradients of keys and values, for Hopper (sm_90a) and heads of up to 128
// columns: the algorithm of attention_key_value_gradient.cu with 128 keys per block. One warp group copies
// queries and the gradients of their output into a ring and computes the dropout bits; two warp groups keep
// both gradients of 64 keys each in registers.
//
// Matmuls are computed transposed, with keys as rows, so that probabilities are in the register layout that
// the next matmul needs. A group waits for all its matmuls before the next queries; the other group's matmuls
// keep the tensor cores busy meanwhile. If matmuls stayed in flight across loop iterations, the compiler
// would insert waits between any two (C7515).
#include "backends/cuda/attention/hopper.h"
#include "backends/cuda/attention/hopper_keys.cuh"
#include "backends/cuda/attention/results.cuh"

namespace mtl::cuda {
namespace {

// The loading group has 40 registers per thread: Philox needs more than 24.
template <int kWidth>
struct HopperKeyValueGradient : HopperBlock<3, 40, 232> {
  // number of queries at a time: both gradients at width 128 leave registers for only 32
  static constexpr int kQueries = kWidth > 96 ? 32 : kTile;
  using Tile = HopperTile<kWidth, kTile>;  // of queries, keys, ...
  // bytes of a group's keys, or values; at the end this memory holds their gradients, in padded rows
  static constexpr int kKeyTiles = kGroups, kKeyBytes = kGroupRows * TileShape<kWidth>::kStride * 2;
  static_assert(kGroupRows == kTile && kKeyBytes % 1024 == 0 && Tile::kBytes % 1024 == 0);
  static constexpr int kValuesAt = kGroups * kKeyBytes, kRingAt = 2 * kValuesAt;
  static constexpr int kSlotBytes = 2 * Tile::kBytes;  // a slot holds queries, and gradients of their output
  static constexpr int kFactsAt = kRingAt + kSlots * kSlotBytes;
  static constexpr int kBarriersAt = kFactsAt + kSlots * kKeyTiles * static_cast<int>(sizeof(QueryFacts));
  static constexpr int kBytes = kBarriersAt + static_cast<int>(sizeof(Barriers));
  static_assert(kBytes <= kHopperSharedBytes);
};

template <int kWidth>
struct Gradients {
  float keys[kWidth / 8][4] = {}, values[kWidth / 8][4] = {};
};

// Adds the contribution of kQueries queries of a tile, from `column` on, to the gradients of a warp group's
// keys and values.
template <typename T, int kWidth, bool kDropout>
MTL_PTX void add_queries(Gradients<kWidth>& sums, const unsigned char* key_tile, const unsigned char* query_tile,
                         const AttentionArguments& a, const QueryFacts& facts, const Keys& keys, int first_query, int column,
                         bool whole) {
  using Shape = HopperKeyValueGradient<kWidth>;
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
  if constexpr (kDropout) {
    float kept[kQueries / 8][4];
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) kept[n][i] = scores[n][i];
    }
    drop_transposed<kQueries>(kept, facts, column);
    to_operand<T>(probabilities, kept);
  } else {
    to_operand<T>(probabilities, scores);
  }
  wait_for_wgmma<0>();
  hold(gradients);
  hold(sums.values);
  hold(probabilities);
  fence_wgmma();
  start_weighted_sum<T, kWidth, kTile, kQueries>(sums.values, probabilities, gradient_tile, column);
  commit_wgmma();
  to_score_gradients<kDropout, kQueries>(gradients, scores, a, facts, column);
  to_operand<T>(score_gradients, gradients);
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

// Processes a warp group's keys over all queries that attend to them, one head of the group after the other.
template <typename T, int kWidth, bool kDropout>
MTL_PTX void accumulate(Gradients<kWidth>& sums, unsigned char* bytes, int group, const AttentionArguments& a, const KeyBlock& block) {
  using Shape = HopperKeyValueGradient<kWidth>;
  auto& barriers = barriers_of<Shape>(bytes);
  const unsigned char* key_tile = bytes + group * Shape::kKeyBytes;
  const int group_key = block.first_key + group * Shape::kGroupRows;
  const Keys keys = {group_key, shown_keys_if_any(a, block.place.batch, group_key)};
  typename Shape::Place ring;
#pragma unroll 1
  for (int member = 0; member < a.members; ++member) {
#pragma unroll 1
    for (int query = first_query_tile<Shape>(a, block); query < a.sequence; query = next_query_tile<Shape>(a, block, query + kTile)) {
      const auto here = ring.take();
      const unsigned char* query_tile = slot_at<Shape>(bytes, here);
      const QueryFacts& facts = facts_at<Shape>(bytes, here.slot)[group];
      const bool whole = all_visible(query_range<kTile>(a, block.place.batch, query), {keys.first, keys.shown});
      wait_until_full(barriers, here);
#pragma unroll 1
      for (int column = 0; column < kTile; column += Shape::kQueries) {
        add_queries<T, kWidth, kDropout>(sums, key_tile, query_tile, a, facts, keys, query, column, whole);
      }
      let_go(barriers, here);
    }
  }
}

template <typename T, int kWidth, bool kDropout>
__global__ void __launch_bounds__(HopperKeyValueGradient<kWidth>::kThreadsOfBlock, 1)
    hopper_attention_key_value_gradient_kernel(const __grid_constant__ BackwardMaps maps, AttentionArguments a) {
#if MTL_HOPPER_CODE
  using Shape = HopperKeyValueGradient<kWidth>;
  MTL_DYNAMIC_SHARED(bytes);
  const KeyBlock block = key_block<Shape>(a);
  if (block.first_key >= a.num_keys) return;  // this tile of queries is past the end of a packed sample
  begin_block<Shape>(bytes, maps.key, 1 + kWarps);
  if (threadIdx.x < kGroupThreads) {
    give_registers_back<Shape::kProducerRegisters>();
    produce_queries<Shape, kWidth, kDropout>(bytes, maps, a, block);
    return;
  }
  take_registers<Shape::kConsumerRegisters>();
  const auto [group, warp_row] = group_place<true>();
  Gradients<kWidth> sums;
  wait_for_phase(&barriers_of<Shape>(bytes).resident, 0, -1);
  accumulate<T, kWidth, kDropout>(sums, bytes, group, a, block);
  // no warp of the group still reads keys and values: their shared memory is reused to reorder the gradients
  meet(1 + group, kGroupThreads);
  const int first_row = block.first_key + group * Shape::kGroupRows + warp_row, num_rows = a.num_keys - first_row;
  T* scratch = reinterpret_cast<T*>(bytes + group * Shape::kKeyBytes) + warp_row * TileShape<kWidth>::kStride;
  store_results<T, kWidth>(a, a.key_gradient, block.place, first_row, num_rows, 0, sums.keys, {a.scale, a.scale}, scratch,
                           a.accumulate);
  const float factor = kDropout ? a.inverse_keep : 1.0f;
  store_results<T, kWidth>(a, a.value_gradient, block.place, first_row, num_rows, 0, sums.values, {factor, factor}, scratch,
                           a.accumulate);
#else
  __trap();  // compiled for another GPU; must not return wrong results
#endif
}

}  // namespace

cudaError_t launch_hopper_attention_key_value_gradient(const AttentionBackwardCall& call, const BackwardMaps& maps) {
  if (call.problem.head_size > 128) return launch_hopper_wide_key_value_gradient(call, maps);
  const AttentionArguments a = attention_arguments(call.problem);
  return with_hopper_kernel<64, 80, 96, 128>(call.problem, [&](auto element, auto width, auto dropout) {
    constexpr int kWidth = decltype(width)::value;
    const Launch how = hopper_launch<HopperKeyValueGradient<kWidth>>(a, a.num_keys, a.heads / a.members, call.stream);
    return MTL_LAUNCH((hopper_attention_key_value_gradient_kernel<decltype(element), kWidth, decltype(dropout)::value>), how, maps, a);
  });
}

}  // namespace mtl::cuda

// Flash attention, backward, gradients of keys and values, for Hopper (sm_90a) and heads of more than 128
// columns: the algorithm of hopper_key_value_gradient.cu with 64 keys per block.
//
// Both gradients of 64 keys need 192 or 256 registers per thread: too many. The two computing groups
// therefore split the gradients, not the keys: the first group computes scores, probabilities and the
// gradient of the values; the second computes the gradients of the probabilities, of the scores and of the
// keys. Each group has two matmuls, together the four that one group would need for both gradients. Both
// groups need the probabilities: the first passes them to the second through shared memory, thread by thread,
// as accumulators have the same layout in both groups.
#include "backends/cuda/attention/hopper.h"
#include "backends/cuda/attention/hopper_keys.cuh"
#include "backends/cuda/attention/results.cuh"

namespace mtl::cuda {
namespace {

// Probabilities in units of four floats; a thread of the first group passes its units to the thread with the
// same index in the second group.
using Probabilities = float4[kTile / 8][kGroupThreads];

// The loading group has 40 registers per thread: Philox needs more than 24.
template <int kWidth>
struct HopperWideKeyValueGradient : HopperBlock<2, 40, 232> {
  using Tile = HopperTile<kWidth, kTile>;  // of queries, keys, ...
  static constexpr int kRows = kTile, kKeyTiles = 1, kKeyBytes = 0;
  // memory of the keys and of the values; at the end it holds their gradients, half the columns at a time, in
  // padded rows
  static constexpr int kValuesAt = Tile::kBytes, kRingAt = 2 * kValuesAt;
  static_assert(TileShape<kWidth / 2>::elements(kTile) * 2 <= Tile::kBytes && Tile::kBytes % 1024 == 0);
  static constexpr int kSlotBytes = 2 * Tile::kBytes;  // a slot holds queries, and gradients of their output
  static constexpr int kProbabilitiesAt = kRingAt + kSlots * kSlotBytes;
  static constexpr int kFactsAt = kProbabilitiesAt + kSlots * static_cast<int>(sizeof(Probabilities));
  static constexpr int kBarriersAt = kFactsAt + kSlots * static_cast<int>(sizeof(QueryFacts));
  static constexpr int kHandedAt = kBarriersAt + static_cast<int>(sizeof(Barriers));
  static constexpr int kBytes = kHandedAt + kSlots * static_cast<int>(sizeof(uint64_t));
  static_assert(kBytes <= kHopperSharedBytes);
};

// These functions return a slot's memory for the first group's probabilities, and the barrier that signals
// that the probabilities are complete. The probabilities stay in the slot until both groups have released it.
template <typename Shape>
MTL_PTX Probabilities& probabilities_at(unsigned char* bytes, int slot) {
  return reinterpret_cast<Probabilities*>(bytes + Shape::kProbabilitiesAt)[slot];
}
template <typename Shape>
MTL_PTX uint64_t* handed_at(unsigned char* bytes, int slot) {
  return reinterpret_cast<uint64_t*>(bytes + Shape::kHandedAt) + slot;
}

// Calls `add` with every tile of queries that attend to one of the block's keys, one head of the group after
// the other, when the tile has arrived. Arguments: the position in the ring, the tile, and its first query.
// Releases the slot afterwards.
template <typename Shape, typename Add>
MTL_PTX void for_query_tiles(unsigned char* bytes, const AttentionArguments& a, const KeyBlock& block, const Add& add) {
  auto& barriers = barriers_of<Shape>(bytes);
  typename Shape::Place ring;
#pragma unroll 1
  for (int member = 0; member < a.members; ++member) {
#pragma unroll 1
    for (int query = first_query_tile<Shape>(a, block); query < a.sequence; query = next_query_tile<Shape>(a, block, query + kTile)) {
      const auto here = ring.take();
      wait_until_full(barriers, here);
      add(here, slot_at<Shape>(bytes, here), query);
      let_go(barriers, here);
    }
  }
}

// Computes sums += a b and waits for the result.
template <typename T, int kWidth>
MTL_PTX void add_weighted_sum(float (&sums)[kWidth / 8][4], uint32_t (&a)[kTile / 16][4], const unsigned char* b_tile) {
  hold(sums);
  hold(a);
  fence_wgmma();
  start_weighted_sum<T, kWidth, kTile>(sums, a, b_tile);
  commit_wgmma();
  wait_for_wgmma<0>();
  hold(sums);
  hold(a);
}

// Computes scores = a b^T and waits for the result.
template <typename T, int kWidth>
MTL_PTX void compute_scores(float (&scores)[kTile / 8][4], const unsigned char* a_tile, const unsigned char* b_tile) {
  hold(scores);
  fence_wgmma();
  start_scores<T, kWidth, kTile>(scores, a_tile, b_tile);
  commit_wgmma();
  wait_for_wgmma<0>();
  hold(scores);
}

// Computes the first group's result over all queries: the gradient of the values, before the scaling of
// dropout.
template <typename T, int kWidth, bool kDropout>
MTL_PTX void accumulate_values(float (&sums)[kWidth / 8][4], unsigned char* bytes, const AttentionArguments& a, const KeyBlock& block) {
  using Shape = HopperWideKeyValueGradient<kWidth>;
  const int number = static_cast<int>(threadIdx.x) % kGroupThreads, lane = number % 32, key_row = number / 32 * 16 + lane / 4;
  const Keys keys = {block.first_key, shown_keys(a, block.place.batch, block.first_key)};
  for_query_tiles<Shape>(bytes, a, block, [&](const auto& here, const unsigned char* query_tile, int query) {
    const QueryFacts& facts = *facts_at<Shape>(bytes, here.slot);
    const bool whole = all_visible(query_range<kTile>(a, block.place.batch, query), {keys.first, keys.shown});
    float scores[kTile / 8][4];
    uint32_t probabilities[kTile / 16][4];
    compute_scores<T, kWidth>(scores, bytes, query_tile);
    to_probabilities<kTile>(scores, a, facts, keys, key_row, query, 0, whole);
    Probabilities& handed = probabilities_at<Shape>(bytes, here.slot);
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) handed[n][number] = {scores[n][0], scores[n][1], scores[n][2], scores[n][3]};
    __syncwarp();  // an arrival covers only its own thread
    if (lane == 0) arrive(handed_at<Shape>(bytes, here.slot));
    if constexpr (kDropout) drop_transposed<kTile>(scores, facts, 0);
    to_operand<T>(probabilities, scores);
    add_weighted_sum<T, kWidth>(sums, probabilities, query_tile + Shape::Tile::kBytes);
  });
}

// Computes the second group's result over all queries: the gradient of the keys, before the scaling of
// scores.
template <typename T, int kWidth, bool kDropout>
MTL_PTX void accumulate_keys(float (&sums)[kWidth / 8][4], unsigned char* bytes, const AttentionArguments& a, const KeyBlock& block) {
  using Shape = HopperWideKeyValueGradient<kWidth>;
  const int number = static_cast<int>(threadIdx.x) % kGroupThreads;
  for_query_tiles<Shape>(bytes, a, block, [&](const auto& here, const unsigned char* query_tile, int) {
    const QueryFacts& facts = *facts_at<Shape>(bytes, here.slot);
    float gradients[kTile / 8][4], probabilities[kTile / 8][4];
    uint32_t score_gradients[kTile / 16][4];
    compute_scores<T, kWidth>(gradients, bytes + Shape::kValuesAt, query_tile + Shape::Tile::kBytes);
    wait_for_phase(handed_at<Shape>(bytes, here.slot), here.parity, here.slot);
    const Probabilities& handed = probabilities_at<Shape>(bytes, here.slot);
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
      const float4 four = handed[n][number];
      probabilities[n][0] = four.x;
      probabilities[n][1] = four.y;
      probabilities[n][2] = four.z;
      probabilities[n][3] = four.w;
    }
    to_score_gradients<kDropout, kTile>(gradients, probabilities, a, facts, 0);
    to_operand<T>(score_gradients, gradients);
    add_weighted_sum<T, kWidth>(sums, score_gradients, query_tile);
  });
}

// Writes a warp's 16 rows, one half of the columns after the other. scratch: see store_rows; it has room for
// half the columns.
template <typename T, int kWidth>
MTL_PTX void store_in_halves(const AttentionOperand& to, const HeadPlace& place, int first_row, const AttentionArguments& a,
                             const float (&sums)[kWidth / 8][4], float factor, T* scratch) {
  constexpr int kHalf = kWidth / 2;
#pragma unroll
  for (int first = 0; first < kWidth; first += kHalf) {
    const auto& half = reinterpret_cast<const float(&)[kHalf / 8][4]>(sums[first / 8]);
    store_results<T, kHalf>(a, to, place, first_row, a.num_keys - first_row, first, half, {factor, factor}, scratch, a.accumulate);
  }
}

template <typename T, int kWidth, bool kDropout>
__global__ void __launch_bounds__(HopperWideKeyValueGradient<kWidth>::kThreadsOfBlock, 1)
    hopper_wide_key_value_gradient_kernel(const __grid_constant__ BackwardMaps maps, AttentionArguments a) {
#if MTL_HOPPER_CODE
  using Shape = HopperWideKeyValueGradient<kWidth>;
  MTL_DYNAMIC_SHARED(bytes);
  const KeyBlock block = key_block<Shape>(a);
  if (block.first_key >= a.num_keys) return;  // past the end of a packed sample
  if (threadIdx.x == 0) {  // before begin_block makes this thread's initialization visible
    for (int slot = 0; slot < Shape::kSlots; ++slot) set_up_barrier(handed_at<Shape>(bytes, slot), kWarps);
  }
  begin_block<Shape>(bytes, maps.key, 1 + kWarps);
  if (threadIdx.x < kGroupThreads) {
    give_registers_back<Shape::kProducerRegisters>();
    produce_queries<Shape, kWidth, kDropout>(bytes, maps, a, block);
    return;
  }
  take_registers<Shape::kConsumerRegisters>();
  const auto [group, warp_row] = group_place<true>();
  float sums[kWidth / 8][4] = {};
  wait_for_phase(&barriers_of<Shape>(bytes).resident, 0, -1);
  if (group == 0) {
    accumulate_values<T, kWidth, kDropout>(sums, bytes, a, block);
  } else {
    accumulate_keys<T, kWidth, kDropout>(sums, bytes, a, block);
  }
  // no warp of the group still reads its tile (the first group's keys, the second group's values): its shared
  // memory is reused to reorder the gradient
  meet(1 + group, kGroupThreads);
  const int first_row = block.first_key + warp_row;
  const AttentionOperand& gradient = group == 1 ? a.key_gradient : a.value_gradient;
  T* const scratch = reinterpret_cast<T*>(bytes + group * Shape::kValuesAt) + warp_row * TileShape<kWidth / 2>::kStride;
  const float factor = group == 1 ? a.scale : kDropout ? a.inverse_keep : 1.0f;
  store_in_halves<T, kWidth>(gradient, block.place, first_row, a, sums, factor, scratch);
#else
  __trap();  // compiled for another GPU; must not return wrong results
#endif
}

}  // namespace

cudaError_t launch_hopper_wide_key_value_gradient(const AttentionBackwardCall& call, const BackwardMaps& maps) {
  const AttentionArguments a = attention_arguments(call.problem);
  return with_hopper_kernel<192, 256>(call.problem, [&](auto element, auto width, auto dropout) {
    constexpr int kWidth = decltype(width)::value;
    const Launch how = hopper_launch<HopperWideKeyValueGradient<kWidth>>(a, a.num_keys, a.heads / a.members, call.stream);
    return MTL_LAUNCH((hopper_wide_key_value_gradient_kernel<decltype(element), kWidth, decltype(dropout)::value>), how, maps, a);
  });
}

}  // namespace mtl::cuda

// Flash attention, forward, for Hopper (sm_90a): the algorithm of attention_forward.cu on 128 queries a block
// and 128 keys at a time. One warp group copies tiles of keys and values into a ring; two compute 64 queries
// each, scores from shared memory, values weighted by probabilities that never leave registers.
//
// The scores of a tile are started before the values of the tile before are: the tensor cores work on both
// while the softmax of the new scores is computed. Tiles come in the order in which they are used: K0, K1,
// V0, K2, V1, ...
//
// spills allowed: 24 (bytes, with dropout alone, from width 80 on: what is known before the loop and, in it,
// two loads a tile of 128 x 128 scores, for which Philox takes a thousand instructions)
#include "cuda/attention/hopper.h"
#include "cuda/attention/hopper_tiles.cuh"
#include "cuda/attention/online_softmax.cuh"

namespace mtl::cuda {
namespace {

template <int kWidth>
struct HopperForward {
  static constexpr int kKeys = 128, kGroups = 2, kGroupQueries = 64, kQueries = kGroups * kGroupQueries, kSlots = 4;
  static constexpr int kThreadsOfBlock = (1 + kGroups) * kGroupThreads;
  static constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
  static_assert(kProducerRegisters + kGroups * kConsumerRegisters <= (1 + kGroups) * kLaunchRegisters);
  using Queries = HopperTile<kWidth, kGroupQueries>;
  using Keys = HopperTile<kWidth, kKeys>;
  // a group's queries; at the end its output, in padded rows
  static constexpr int kQueryBytes = kGroupQueries * TileShape<kWidth>::kStride * 2;
  static_assert(kQueryBytes % 1024 == 0 && Keys::kBytes % 1024 == 0);
  static constexpr int kRingAt = kGroups * kQueryBytes, kBarriersAt = kRingAt + kSlots * Keys::kBytes;
  using Barriers = RingBarriers<kSlots>;
  using Place = RingPlace<kSlots>;
  static constexpr int kBytes = kBarriersAt + static_cast<int>(sizeof(Barriers));
  static_assert(kBytes <= kHopperSharedBytes);
};

// The keys that a block goes over, in tiles.
struct Tiles {
  int first, end;
};

// By one thread: everything that the block reads.
template <int kWidth>
MTL_PTX void produce(unsigned char* bytes, const PanelMaps& qkv, int head_of_batch, int first_query, const Tiles& tiles) {
  using Shape = HopperForward<kWidth>;
  auto& barriers = *reinterpret_cast<typename Shape::Barriers*>(bytes + Shape::kBarriersAt);
  const int vector = 3 * head_of_batch;
  arrive_expecting(&barriers.resident, Shape::kGroups * Shape::Queries::kBytes);
#pragma unroll
  for (int group = 0; group < Shape::kGroups; ++group) {
    copy_tile<kWidth, Shape::kGroupQueries>(bytes + group * Shape::kQueryBytes, qkv, vector,
                                            first_query + group * Shape::kGroupQueries, &barriers.resident);
  }
  typename Shape::Place place;
  const auto copy = [&](int part, int tile) {  // 1: keys, 2: values
    wait_until_empty(barriers, place);
    arrive_expecting(&barriers.full[place.slot], Shape::Keys::kBytes);
    copy_tile<kWidth, Shape::kKeys>(bytes + Shape::kRingAt + place.slot * Shape::Keys::kBytes, qkv, vector + part,
                                    tile * Shape::kKeys, &barriers.full[place.slot]);
    place.advance();
  };
#pragma unroll 1
  for (int tile = tiles.first; tile < tiles.end; ++tile) {
    copy(1, tile);
    if (tile > tiles.first) copy(2, tile - 1);
  }
  if (tiles.first < tiles.end) copy(2, tiles.end - 1);
}

// What a thread that computes knows of its rows.
struct Rows {
  int batch, query;  // of its first row; the other is 8 behind
  QueryRange range;  // of its group's queries
  DropoutSite site;
  float scale_log2;
};

// Takes a tile of scores into the rows and makes probabilities of it, all but the output's share: what that
// has to be multiplied by goes to `shrink`.
template <bool kDropout, int kWidth, int kTiles>
MTL_PTX void take_scores(float (&scores)[kTiles][4], RunningRows<kWidth>& rows, float (&shrink)[2], const AttentionArguments& a,
                         const Rows& of, int first_key) {
  constexpr int kParts = kTiles * 8 / kTile;  // of 64 keys, which masks and dropout go by
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

// A warp group's queries over all tiles.
template <typename T, int kWidth, bool kDropout>
MTL_PTX void attend(RunningRows<kWidth>& rows, unsigned char* bytes, const unsigned char* query_tile, const AttentionArguments& a,
                    const Rows& of, const Tiles& tiles) {
  using Shape = HopperForward<kWidth>;
  constexpr int kKeys = Shape::kKeys;
  auto& barriers = *reinterpret_cast<typename Shape::Barriers*>(bytes + Shape::kBarriersAt);
  const auto tile_at = [&](const typename Shape::Place& place) { return bytes + Shape::kRingAt + place.slot * Shape::Keys::kBytes; };
  typename Shape::Place ring;
  float scores[kKeys / 8][4], shrink[2];
  uint32_t probabilities[kKeys / 16][4];
  const auto first = ring.take();
  wait_until_full(barriers, first);
  fence_products();
  start_scores<T, kWidth, kKeys>(scores, query_tile, tile_at(first));
  commit_products();
  wait_for_products<0>();
  hold(scores);
  let_go(barriers, first);
  take_scores<kDropout>(scores, rows, shrink, a, of, tiles.first * kKeys);
  to_operand<T>(probabilities, scores);
#pragma unroll 1
  for (int tile = tiles.first + 1; tile < tiles.end; ++tile) {
    const auto keys = ring.take(), values = ring.take();
    wait_until_full(barriers, keys);
    hold(scores);
    fence_products();
    start_scores<T, kWidth, kKeys>(scores, query_tile, tile_at(keys));
    commit_products();
    wait_until_full(barriers, values);
    hold(rows.output);
    fence_products();
    start_weighted_sum<T, kWidth, kKeys>(rows.output, probabilities, tile_at(values));
    commit_products();
    wait_for_products<1>();
    hold(scores);
    let_go(barriers, keys);
    take_scores<kDropout>(scores, rows, shrink, a, of, tile * kKeys);
    wait_for_products<0>();
    hold(rows.output);
    let_go(barriers, values);
#pragma unroll
    for (int half = 0; half < 2; ++half) rows.rescale(half, shrink[half]);
    to_operand<T>(probabilities, scores);
  }
  wait_until_full(barriers, ring);
  hold(rows.output);
  fence_products();
  start_weighted_sum<T, kWidth, kKeys>(rows.output, probabilities, tile_at(ring));
  commit_products();
  wait_for_products<0>();
  hold(rows.output);
}

template <typename T, int kWidth, bool kDropout>
__global__ void __launch_bounds__(HopperForward<kWidth>::kThreadsOfBlock, 1)
    hopper_attention_forward_kernel(const __grid_constant__ PanelMaps qkv, AttentionArguments a, ForwardPointers pointers) {
#if MTL_HOPPER_CODE
  using Shape = HopperForward<kWidth>;
  MTL_DYNAMIC_SHARED(bytes);
  require_swizzle_alignment(bytes);
  auto& barriers = *reinterpret_cast<typename Shape::Barriers*>(bytes + Shape::kBarriersAt);
  if (threadIdx.x == 0) {
    prefetch(qkv.full);
    barriers.set_up(1, Shape::kGroups * kWarps);
  }
  __syncthreads();
  // The last queries see the most keys: they start first, so that no block is left over at the end.
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Shape::kQueries;
  const int head_of_batch = static_cast<int>(blockIdx.y);
  const HeadPlace place = head_place(a, head_of_batch);
  const KeyRange seen = query_range<Shape::kQueries>(a, place.batch, first_query).any;
  const Tiles tiles = {seen.begin / Shape::kKeys, (seen.end + Shape::kKeys - 1) / Shape::kKeys};
  if (threadIdx.x < kGroupThreads) {
    give_registers_back<Shape::kProducerRegisters>();
    if (threadIdx.x == 0) produce<kWidth>(bytes, qkv, head_of_batch, first_query, tiles);
    return;
  }
  take_registers<Shape::kConsumerRegisters>();
  const int group = static_cast<int>(threadIdx.x) / kGroupThreads - 1, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16;
  const int group_query = first_query + group * Shape::kGroupQueries, query = group_query + warp_row + lane / 4;
  unsigned char* query_tile = bytes + group * Shape::kQueryBytes;
  const Rows of = {place.batch, query, query_range<Shape::kGroupQueries>(a, place.batch, group_query), dropout_site(a, place),
                   a.scale * kLog2E};
  RunningRows<kWidth> rows;
  wait_for_phase(&barriers.resident, 0);
  if (tiles.first < tiles.end) attend<T, kWidth, kDropout>(rows, bytes, query_tile, a, of, tiles);
  // no warp of the group reads the queries any more: their place is where the output is put in order
  meet(1 + group, kGroupThreads);
  finish_rows<T, kWidth>(a, place, pointers, rows, group_query + warp_row,
                         reinterpret_cast<T*>(query_tile) + warp_row * TileShape<kWidth>::kStride);
#else
  __trap();  // code for another card, which must not pass for a result
#endif
}

template <typename T, int kWidth>
cudaError_t launch_width(const AttentionForward& call) {
  using Shape = HopperForward<kWidth>;
  PanelMaps maps;
  const cudaError_t status = make_panel_maps<kWidth>(&maps, call.qkv, 3, call.problem, call.dtype);
  if (status != cudaSuccess) return status;
  const AttentionArguments a = attention_arguments(call.problem);
  const unsigned num_blocks = static_cast<unsigned>((a.sequence + Shape::kQueries - 1) / Shape::kQueries);
  const Launch how = {dim3(num_blocks, static_cast<unsigned>(a.batch * a.heads)), Shape::kThreadsOfBlock, Shape::kBytes, call.stream};
  const ForwardPointers pointers = {call.output, call.log_sum_exp, call.qkv};
  return a.dropout_threshold != 0 ? MTL_LAUNCH((hopper_attention_forward_kernel<T, kWidth, true>), how, maps, a, pointers)
                                  : MTL_LAUNCH((hopper_attention_forward_kernel<T, kWidth, false>), how, maps, a, pointers);
}

template <typename T>
cudaError_t launch_dtype(const AttentionForward& call) {
  const int64_t width = call.problem.head_size;
  if (width <= 64) return launch_width<T, 64>(call);
  if (width <= 80) return launch_width<T, 80>(call);
  return width <= 96 ? launch_width<T, 96>(call) : launch_width<T, 128>(call);
}

}  // namespace

cudaError_t launch_hopper_attention_forward(const AttentionForward& call) {
  return call.dtype == DType::kBFloat16 ? launch_dtype<__nv_bfloat16>(call) : launch_dtype<__half>(call);
}

}  // namespace mtl::cuda

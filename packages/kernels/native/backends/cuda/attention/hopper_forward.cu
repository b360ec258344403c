// Flash attention, forward, for Hopper (sm_90a): the algorithm of attention_forward.cu on 128 queries per
// block and 128 keys at a time, 64 for wide heads. One warp group copies tiles of keys and values into a
// ring; two compute 64 queries each. Scores are computed from shared memory; the probabilities that weight
// the values stay in registers.
//
// The scores of a tile are started before the values of the previous tile: the tensor cores work on both
// while the softmax of the new scores is computed. Tiles are loaded in the order of use: K0, K1, V0, K2, V1,
// ...
//
// spills allowed: 24 (bytes, with dropout only, at widths 80 to 128: values computed before the loop and, in
// it, two loads per tile of 128 x 128 scores, for which Philox takes a thousand instructions)
#include "backends/cuda/attention/hopper.h"
#include "backends/cuda/attention/hopper_tiles.cuh"
#include "backends/cuda/attention/online_softmax.cuh"

namespace mtl::cuda {
namespace {

constexpr int num_slots(int width) { return width <= 128 ? 4 : width == 192 ? 6 : 5; }

template <int kWidth>
struct HopperForward : HopperBlock<num_slots(kWidth), 24, 240> {
  using Block = HopperBlock<num_slots(kWidth), 24, 240>;
  // an output of 192 or 256 columns leaves registers for the scores of 64 keys
  static constexpr int kKeys = kWidth <= 128 ? 128 : 64;
  using Queries = HopperTile<kWidth, Block::kGroupRows>;
  // a group's queries; at the end its output, in padded rows
  static constexpr int kQueryBytes = Block::kGroupRows * TileShape<kWidth>::kStride * 2;
  static constexpr int kSlotBytes = HopperTile<kWidth, kKeys>::kBytes;  // keys, or values
  static_assert(kQueryBytes % 1024 == 0 && kSlotBytes % 1024 == 0);
  static constexpr int kRingAt = Block::kGroups * kQueryBytes, kBarriersAt = kRingAt + Block::kSlots * kSlotBytes;
  static constexpr int kBytes = kBarriersAt + static_cast<int>(sizeof(typename Block::Barriers));
  static_assert(kBytes <= kHopperSharedBytes);
};

// By one thread: copies all tiles that the block reads.
template <int kWidth>
MTL_PTX void produce(unsigned char* bytes, const ForwardMaps& maps, const QueryBlock& block) {
  using Shape = HopperForward<kWidth>;
  auto& barriers = barriers_of<Shape>(bytes);
  const int position = block.place.first_row, query = vector_of(maps.query, block.place);
  const int key = vector_of(maps.key, block.place), value = vector_of(maps.value, block.place);
  arrive_expecting(&barriers.resident, Shape::kGroups * Shape::Queries::kBytes);
#pragma unroll
  for (int group = 0; group < Shape::kGroups; ++group) {
    copy_tile<kWidth, Shape::kGroupRows>(bytes + group * Shape::kQueryBytes, maps.query, query,
                                         position + block.first_query + group * Shape::kGroupRows, &barriers.resident);
  }
  typename Shape::Place place;
  const auto fill = [&](const PanelMaps& of, int vector, int tile) {
    fill_slot<Shape, kWidth, Shape::kKeys>(bytes, place, of, vector, position + tile * Shape::kKeys);
  };
#pragma unroll 1
  for (int tile = block.first_tile; tile < block.end_tile; ++tile) {
    fill(maps.key, key, tile);
    if (tile > block.first_tile) fill(maps.value, value, tile - 1);
  }
  if (block.first_tile < block.end_tile) fill(maps.value, value, block.end_tile - 1);
}

// What a computing thread keeps about its rows.
struct Rows {
  int batch, query;  // of its first row; the second is 8 below
  QueryRange range;  // of its group's queries
  DropoutSite site;
  float scale_log2;
};

// Updates the rows with a tile of scores and converts it to probabilities, except for the output: `shrink`
// receives the factors for it.
template <bool kDropout, int kWidth, int kTiles>
MTL_PTX void take_scores(float (&scores)[kTiles][4], RunningRows<kWidth>& rows, float (&shrink)[2], const AttentionArguments& a,
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

// Computes a warp group's queries over all tiles.
template <typename T, int kWidth, bool kDropout>
MTL_PTX void attend(RunningRows<kWidth>& rows, unsigned char* bytes, const unsigned char* query_tile, const AttentionArguments& a,
                    const Rows& of, const QueryBlock& block) {
  using Shape = HopperForward<kWidth>;
  constexpr int kKeys = Shape::kKeys;
  auto& barriers = barriers_of<Shape>(bytes);
  const auto tile_at = [&](const typename Shape::Place& place) { return slot_at<Shape>(bytes, place); };
  typename Shape::Place ring;
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
  take_scores<kDropout>(scores, rows, shrink, a, of, block.first_tile * kKeys);
  to_operand<T>(probabilities, scores);
#pragma unroll 1
  for (int tile = block.first_tile + 1; tile < block.end_tile; ++tile) {
    const auto keys = ring.take(), values = ring.take();
    wait_until_full(barriers, keys);
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
  wait_until_full(barriers, ring);
  hold(rows.output);
  hold(probabilities);
  fence_wgmma();
  start_weighted_sum<T, kWidth, kKeys>(rows.output, probabilities, tile_at(ring));
  commit_wgmma();
  wait_for_wgmma<0>();
  hold(rows.output);
  hold(probabilities);
}

template <typename T, int kWidth, bool kDropout>
__global__ void __launch_bounds__(HopperForward<kWidth>::kThreadsOfBlock, 1)
    hopper_attention_forward_kernel(const __grid_constant__ ForwardMaps maps, AttentionArguments a) {
#if MTL_HOPPER_CODE
  using Shape = HopperForward<kWidth>;
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
  // with dropout no register is left for what the compiler would then keep: it would spill 100 bytes
  const auto [group, warp_row] = group_place<!kDropout>();
  const int group_query = block.first_query + group * Shape::kGroupRows, warp_query = group_query + warp_row;
  unsigned char* query_tile = bytes + group * Shape::kQueryBytes;
  const Rows of = {block.place.batch, warp_query + static_cast<int>(threadIdx.x) % 32 / 4,
                   query_range<Shape::kGroupRows>(a, block.place.batch, group_query), dropout_site(a, block.place),
                   a.scale * kLog2E};
  RunningRows<kWidth> rows;
  wait_for_phase(&barriers_of<Shape>(bytes).resident, 0, -1);
  if (block.first_tile < block.end_tile) attend<T, kWidth, kDropout>(rows, bytes, query_tile, a, of, block);
  // no warp of the group still reads the queries: their shared memory is reused to reorder the output
  meet(1 + group, kGroupThreads);
  // read again, so that it occupies no registers in between
  const HeadPlace end = enter_head(a, static_cast<int>(blockIdx.y));
  finish_rows<T, kWidth>(a, end, rows, warp_query,
                         reinterpret_cast<T*>(query_tile) + warp_row * TileShape<kWidth>::kStride);
#else
  __trap();  // code for another GPU; must not be mistaken for a result
#endif
}

}  // namespace

cudaError_t launch_hopper_attention_forward(const AttentionForwardCall& call) {
  const AttentionProblem& problem = call.problem;
  ForwardMaps maps;
  cudaError_t status = make_panel_maps(&maps.query, problem.query, problem);
  if (status == cudaSuccess) status = make_panel_maps(&maps.key, problem.key, problem);
  if (status == cudaSuccess) status = make_panel_maps(&maps.value, problem.value, problem);
  if (status != cudaSuccess) return status;
  const AttentionArguments a = attention_arguments(problem);
  return with_hopper_kernel<64, 80, 96, 128, 192, 256>(problem, [&](auto element, auto width, auto dropout) {
    constexpr int kWidth = decltype(width)::value;
    const Launch how = hopper_launch<HopperForward<kWidth>>(a, a.heads, call.stream);
    return MTL_LAUNCH((hopper_attention_forward_kernel<decltype(element), kWidth, decltype(dropout)::value>), how, maps, a);
  });
}

}  // namespace mtl::cuda

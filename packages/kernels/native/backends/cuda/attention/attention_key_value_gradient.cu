// Flash attention, backward, gradients of keys and values (Dao 2023, "FlashAttention-2", algorithm 2): a
// block takes 64 keys of a group, loops over the queries that attend to them, one head of the group after the
// other, and keeps both gradients in registers.
//
// Matmuls are computed transposed, with keys as rows: the probabilities are then in the register layout that
// the next matmul needs and never pass through shared memory. From width 192 on, both gradients together need
// too many registers: the gradients of keys and of values get one launch each.
#include "backends/cuda/attention/masks.cuh"
#include "backends/cuda/attention/query_facts.cuh"
#include "backends/cuda/attention/results.cuh"

namespace mtl::cuda {
namespace {

enum class Gradients { kBoth, kKeys, kValues };

template <typename T, int kWidth>
struct Shape {
  static constexpr int kStages = kWidth > 192 ? 1 : 2;  // 2 would exceed the 163 KB per block of an A100
  static constexpr int kTileBytes = TileShape<kWidth>::elements((2 + 2 * kStages) * kTile) * static_cast<int>(sizeof(T));
  static constexpr int kBytes = kTileBytes + kStages * static_cast<int>(sizeof(QueryFacts));
  static_assert(kBytes <= kMaxSharedBytes);
};

MTL_PTX int next_query_tile(const AttentionArguments& a, int batch, const Keys& keys, int first_query, QueryRange* range) {
  for (; first_query < a.sequence; first_query += kTile) {
    *range = query_range<kTile>(a, batch, first_query);
    if (keys.first + kTile > range->any.begin && keys.first < range->any.end) return first_query;
  }
  return first_query;
}

// If kPacked, a sample's length and offset are read from memory instead of computed. Reading them costs
// registers, which is why packed samples have a separate kernel.
template <typename T, int kWidth, bool kDropout, Gradients kWhich, bool kPacked>
__global__ void __launch_bounds__(kThreads) attention_key_value_gradient_kernel(AttentionArguments a) {
  constexpr int kStride = TileShape<kWidth>::kStride, kStages = Shape<T, kWidth>::kStages;
  // number of queries at a time: both gradients above width 80, or the gradient of keys at width 256, leave
  // registers for only 32
  constexpr int kQueries =
      (kWhich == Gradients::kBoth && kWidth > 80) || (kWhich == Gradients::kKeys && kWidth > 192) ? 32 : kTile;
  constexpr bool kOfKeys = kWhich != Gradients::kValues, kOfValues = kWhich != Gradients::kKeys;
  MTL_DYNAMIC_SHARED(bytes);
  T* key_tile = reinterpret_cast<T*>(bytes);
  T* value_tile = key_tile + kTile * kStride;
  T* stages = value_tile + kTile * kStride;
  auto* facts_of_stage = reinterpret_cast<QueryFacts*>(bytes + Shape<T, kWidth>::kTileBytes);

  const int head_of_batch = static_cast<int>(blockIdx.y) * a.members;  // first head of a group
  HeadPlace place = kPacked ? enter_head(a, head_of_batch) : head_place(a, head_of_batch);
  const int first_key = static_cast<int>(blockIdx.x) * kTile;  // the first keys have the most queries and start first
  if (kPacked && first_key >= a.num_keys) return;  // past the end of a sample
  const Keys seen = {first_key, shown_keys(a, place.batch, first_key)};
  const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) / 32 * 16;

  const auto load_stage = [&](int stage, int first_query) {
    T* query_tile = stages + stage * 2 * kTile * kStride;
    load_tile<T, kWidth, kTile>(query_tile, rows_of<const T>(a.query, place), a.query.position, first_query, a.sequence, a.head_size);
    load_tile<T, kWidth, kTile>(query_tile + kTile * kStride, rows_of<const T>(a.output_gradient, place), a.output_gradient.position,
                                first_query, a.sequence, a.head_size);
    const int number = static_cast<int>(threadIdx.x);
    if (number < kTile) load_facts(facts_of_stage[stage], a, place, first_query, number);
    if constexpr (kDropout) {
      load_dropout(facts_of_stage[stage], dropout_site(a, place), a.first_query + first_query, a.first_key + first_key);
    }
  };
  constexpr int kColumns = kWidth / 8;
  float key_sums[kOfKeys ? kColumns : 1][4] = {}, value_sums[kOfValues ? kColumns : 1][4] = {};
  QueryRange range, next_range;
  int first_query = a.sequence;
  if (seen.shown != 0) first_query = next_query_tile(a, place.batch, seen, first_query_of_key(a, first_key), &range);
  // Returns the tile of queries after the given tile: of the same head or, after the head's last tile, of the
  // next head of the group.
  const auto tile_after = [&](int before) {
    const int next = next_query_tile(a, place.batch, seen, before + kTile, &next_range);
    if (next < a.sequence || place.member + 1 == a.members) return next;
    enter_next_member(a, place);
    return next_query_tile(a, place.batch, seen, first_query_of_key(a, first_key), &next_range);
  };
  load_tile<T, kWidth, kTile>(key_tile, rows_of<const T>(a.key, place), a.key.position, first_key, a.num_keys, a.head_size);
  load_tile<T, kWidth, kTile>(value_tile, rows_of<const T>(a.value, place), a.value.position, first_key, a.num_keys, a.head_size);
  if (first_query < a.sequence) load_stage(0, first_query);
  commit_copies();
  for (int stage = 0; first_query < a.sequence; stage = (stage + 1) % kStages) {
    const int next = tile_after(first_query);
    if (kStages > 1 && next < a.sequence) load_stage(1 - stage, next);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();  // this stage's tiles have arrived
    const T* query_tile = stages + stage * 2 * kTile * kStride;
    const T* gradient_tile = query_tile + kTile * kStride;
    const QueryFacts& facts = facts_of_stage[stage];
    const bool whole = all_visible(range, {first_key, seen.shown});
#pragma unroll 1
    for (int column = 0; column < kTile; column += kQueries) {
      float probabilities[kQueries / 8][4] = {};
      multiply_transposed<T, kWidth, kQueries>(probabilities, key_tile + warp_row * kStride, query_tile + column * kStride);
      to_probabilities<kQueries>(probabilities, a, facts, seen, warp_row + lane / 4, first_query, column, whole);
      if constexpr (kOfKeys) {
        float gradients[kQueries / 8][4] = {};
        multiply_transposed<T, kWidth, kQueries>(gradients, value_tile + warp_row * kStride, gradient_tile + column * kStride);
        to_score_gradients<kDropout, kQueries>(gradients, probabilities, a, facts, column);
        multiply_registers<T, kWidth, kQueries>(key_sums, gradients, query_tile + column * kStride);
      }
      if constexpr (kOfValues) {
        if constexpr (kDropout) drop_transposed<kQueries>(probabilities, facts, column);
        multiply_registers<T, kWidth, kQueries>(value_sums, probabilities, gradient_tile + column * kStride);
      }
    }
    __syncthreads();  // no thread still reads this stage's tiles
    if (kStages == 1 && next < a.sequence) load_stage(0, next);
    if (kStages == 1) commit_copies();
    first_query = next;
    range = next_range;
  }
  wait_for_copies<0>();
  __syncthreads();  // the shared memory of keys and values is reused to reorder their gradients
  // the offsets are computed again, so that they take no registers in between
  const int first_of_group = reread_block_y() * a.members;
  const HeadPlace end = kPacked ? enter_head(a, first_of_group) : head_place(a, first_of_group);
  const int first_row = first_key + warp_row, num_rows = a.num_keys - first_row;
  if constexpr (kOfKeys) {
    store_results<T, kWidth>(a, a.key_gradient, end, first_row, num_rows, 0, key_sums, {a.scale, a.scale},
                             key_tile + warp_row * kStride, a.accumulate);
  }
  if constexpr (kOfValues) {
    const float factor = kDropout ? a.inverse_keep : 1.0f;
    store_results<T, kWidth>(a, a.value_gradient, end, first_row, num_rows, 0, value_sums, {factor, factor},
                             value_tile + warp_row * kStride, a.accumulate);
  }
}

template <typename T, int kWidth, Gradients kWhich, bool kPacked>
cudaError_t launch_gradients(const AttentionBackwardCall& call) {
  const AttentionArguments a = attention_arguments(call.problem);
  const unsigned num_tiles = static_cast<unsigned>((a.num_keys + kTile - 1) / kTile);
  const Launch how = {dim3(num_tiles, static_cast<unsigned>(a.batch * a.heads / a.members)), kThreads, Shape<T, kWidth>::kBytes, call.stream};
  return a.dropout_threshold != 0
             ? MTL_LAUNCH((attention_key_value_gradient_kernel<T, kWidth, true, kWhich, kPacked>), how, a)
             : MTL_LAUNCH((attention_key_value_gradient_kernel<T, kWidth, false, kWhich, kPacked>), how, a);
}

template <typename T, int kWidth, bool kPacked>
cudaError_t launch_packing(const AttentionBackwardCall& call) {
  if constexpr (kWidth <= 128) {
    return launch_gradients<T, kWidth, Gradients::kBoth, kPacked>(call);
  } else {
    const cudaError_t status = launch_gradients<T, kWidth, Gradients::kKeys, kPacked>(call);
    return status == cudaSuccess ? launch_gradients<T, kWidth, Gradients::kValues, kPacked>(call) : status;
  }
}

template <typename T, int kWidth>
cudaError_t launch_width(const AttentionBackwardCall& call) {
  return call.problem.starts != nullptr ? launch_packing<T, kWidth, true>(call) : launch_packing<T, kWidth, false>(call);
}

template <typename T>
cudaError_t launch_dtype(const AttentionBackwardCall& call) {
  const int64_t width = call.problem.head_size;
  if (width <= 64) return launch_width<T, 64>(call);
  if (width <= 80) return launch_width<T, 80>(call);
  if (width <= 96) return launch_width<T, 96>(call);
  if (width <= 128) return launch_width<T, 128>(call);
  if (width <= 192) return launch_width<T, 192>(call);
  return launch_width<T, 256>(call);
}

}  // namespace

cudaError_t launch_attention_key_value_gradient(const AttentionBackwardCall& call) {
  return call.problem.dtype == DType::kBFloat16 ? launch_dtype<__nv_bfloat16>(call) : launch_dtype<__half>(call);
}

}  // namespace mtl::cuda

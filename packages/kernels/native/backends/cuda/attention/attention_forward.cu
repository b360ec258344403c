// Flash attention, forward (Dao 2023, "FlashAttention-2", algorithm 1): a block takes a tile of queries,
// loops over the keys in tiles of 64 and keeps a running maximum, sum and output for every query. Scores stay
// in registers.
//
// Each of the four warps owns 16 or 32 queries. With 32, every fragment of keys and values that is read from
// shared memory feeds two matmuls; with 16, reading the fragments would take twice as long as the tensor
// cores need. The values of a tile are loaded while its scores are computed, and the keys of the next tile
// while the values are used.
//
// spills allowed: 32 (bytes, at width 256 with dropout only: six registers per tile on sm_80, eight with
// packed samples)
#include "backends/cuda/attention/masks.cuh"
#include "backends/cuda/attention/online_softmax.cuh"

namespace mtl::cuda {
namespace {

template <typename T, int kWidth, int kRowTiles>
struct ForwardShape {
  static constexpr int kQueries = 16 * kWarps * kRowTiles;
  static constexpr int kBytes = TileShape<kWidth>::elements(kQueries + 2 * kTile) * static_cast<int>(sizeof(T));
  static_assert(kBytes <= kMaxSharedBytes);
};

// Computes scores += queries keys^T (the next function computes output += probabilities values). Each
// fragment of a tile is read once for all queries of the warp.
template <typename T, int kWidth, int kRowTiles>
MTL_PTX void multiply_queries(float (&scores)[kRowTiles][kTile / 8][4], const T* query_rows, const T* key_tile) {
  constexpr int kStride = TileShape<kWidth>::kStride;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const T* a_row = query_rows + lane % 16 * kStride + lane / 16 * 8;
  const T* b_row = key_tile + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < kWidth; k += 16) {
    uint32_t a[kRowTiles][4];
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) load_matrices(a[tile], a_row + 16 * tile * kStride + k);
#pragma unroll
    for (int n = 0; n < kTile; n += 16) {
      uint32_t b[4];
      load_matrices(b, b_row + n * kStride + k);
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        mma(scores[tile][n / 8], a[tile], {b[0], b[1]}, T{});
        mma(scores[tile][n / 8 + 1], a[tile], {b[2], b[3]}, T{});
      }
    }
  }
}

template <typename T, int kWidth, int kRowTiles>
MTL_PTX void multiply_values(RunningRows<kWidth> (&rows)[kRowTiles],
                             const uint32_t (&probabilities)[kRowTiles][kTile / 16][4], const T* value_tile) {
  constexpr int kStride = TileShape<kWidth>::kStride;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const T* b_row = value_tile + lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < kTile; k += 16) {
#pragma unroll
    for (int n = 0; n < kWidth; n += 16) {
      uint32_t b[4];
      load_matrices_transposed(b, b_row + k * kStride + n);
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        mma(rows[tile].output[n / 8], probabilities[tile][k / 16], {b[0], b[1]}, T{});
        mma(rows[tile].output[n / 8 + 1], probabilities[tile][k / 16], {b[2], b[3]}, T{});
      }
    }
  }
}

// If kPacked, a sample's length and offset are read from memory instead of computed. Reading them costs
// registers, which is why packed samples have a separate kernel. Reading positions (AttentionArguments) costs
// registers, too; kernels for whole sequences (WholeArguments) do not read positions.
template <typename T, int kWidth, int kRowTiles, bool kDropout, bool kPacked, typename Arguments>
__global__ void __launch_bounds__(kThreads) attention_forward_kernel(Arguments a) {
  constexpr int kQueries = ForwardShape<T, kWidth, kRowTiles>::kQueries, kStride = TileShape<kWidth>::kStride;
  MTL_DYNAMIC_SHARED(bytes);
  T* query_tile = reinterpret_cast<T*>(bytes);
  T* key_tile = query_tile + kQueries * kStride;
  T* value_tile = key_tile + kTile * kStride;

  // The last queries attend to the most keys: they start first, so that no long block remains at the end.
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kQueries;
  const int head_of_batch = static_cast<int>(blockIdx.y);
  const HeadPlace place = kPacked ? enter_head(a, head_of_batch) : head_place(a, head_of_batch);
  if (kPacked && first_query >= a.sequence) return;  // past the end of a sample
  const T *keys = rows_of<const T>(a.key, place), *values = keys + a.value_offset;
  const QueryRange range = query_range<kQueries>(a, place.batch, first_query);
  const DropoutSite site = dropout_site(a, place);
  const Positions at = positions_of(a);
  const float scale_log2 = a.scale * kLog2E;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * kRowTiles;

  RunningRows<kWidth> rows[kRowTiles];
  int first_key = next_key_tile(a, place.batch, range, range.any.begin / kTile * kTile);
  load_tile<T, kWidth, kQueries>(query_tile, rows_of<const T>(a.query, place), a.query.position, first_query, a.sequence, a.head_size);
  if (first_key < range.any.end) load_tile<T, kWidth, kTile>(key_tile, keys, a.key.position, first_key, at.num_keys, a.head_size);
  commit_copies();
  while (first_key < range.any.end) {
    wait_for_copies<0>();
    __syncthreads();  // the keys have arrived, and no thread still reads the values of the previous tile
    load_tile<T, kWidth, kTile>(value_tile, values, a.key.position, first_key, at.num_keys, a.head_size);
    commit_copies();
    float scores[kRowTiles][kTile / 8][4] = {};
    multiply_queries<T, kWidth, kRowTiles>(scores, query_tile + warp_row * kStride, key_tile);
    wait_for_copies<0>();
    __syncthreads();  // the values have arrived, and no thread still reads these keys
    const int next = next_key_tile(a, place.batch, range, first_key + kTile);
    if (next < range.any.end) load_tile<T, kWidth, kTile>(key_tile, keys, a.key.position, next, at.num_keys, a.head_size);
    commit_copies();
    const KeyTile tile = {first_key, shown_keys(a, place.batch, first_key)};
    const bool whole = all_visible(range, tile);
    uint32_t probabilities[kRowTiles][kTile / 16][4];  // rounded probabilities take half the registers
#pragma unroll
    for (int part = 0; part < kRowTiles; ++part) {
      const int query = first_query + warp_row + 16 * part + lane / 4;
      if (!whole) {
        hide(scores[part], {keys_of_query(a, place.batch, query), keys_of_query(a, place.batch, query + 8)}, tile);
      }
      rows[part].absorb(scores[part], scale_log2);
      if constexpr (kDropout) {
        drop(scores[part], 0, site, at.first_query + query, at.first_key + tile.first);
        drop(scores[part], 1, site, at.first_query + query + 8, at.first_key + tile.first);
      }
#pragma unroll
      for (int n = 0; n < kTile / 8; n += 2) operand_of<T>(probabilities[part][n / 2], scores[part][n], scores[part][n + 1]);
    }
    multiply_values<T, kWidth, kRowTiles>(rows, probabilities, value_tile);
    first_key = next;
  }
  wait_for_copies<0>();
  __syncthreads();  // the queries are no longer needed: their shared memory is reused to reorder the output
  // the offsets are computed again, so that they take no registers in between
  const HeadPlace end = kPacked ? enter_head(a, reread_block_y()) : head_place(a, reread_block_y());
#pragma unroll
  for (int part = 0; part < kRowTiles; ++part) {
    finish_rows<T, kWidth>(a, end, rows[part], first_query + warp_row + 16 * part,
                           query_tile + (warp_row + 16 * part) * kStride);
  }
}

template <typename T, int kWidth, int kRowTiles, bool kDropout, bool kPacked, typename Arguments>
cudaError_t launch_rows(const AttentionForwardCall& call) {
  using Shape = ForwardShape<T, kWidth, kRowTiles>;
  const Arguments a = {attention_arguments(call.problem)};
  const unsigned num_tiles = static_cast<unsigned>((a.sequence + Shape::kQueries - 1) / Shape::kQueries);
  const Launch how = {dim3(num_tiles, static_cast<unsigned>(a.batch * a.heads)), kThreads, Shape::kBytes, call.stream};
  return MTL_LAUNCH((attention_forward_kernel<T, kWidth, kRowTiles, kDropout, kPacked, Arguments>), how, a);
}

// The most rows per warp that fit in registers (tooling/native/cuda-resources.mjs reports registers). With
// more rows, two registers would be spilled at width 96; packed samples would spill at width 128, and
// positions above width 64. With dropout, Philox dominates the time.
template <typename T, int kWidth, bool kPacked>
cudaError_t launch_packing(const AttentionForwardCall& call) {
  constexpr int kRowTiles = kWidth <= (kPacked ? 80 : 128) && kWidth != 96 ? 2 : 1;
  return dropout_threshold(call.problem.dropout_probability) != 0
             ? launch_rows<T, kWidth, 1, true, kPacked, WholeArguments>(call)
             : launch_rows<T, kWidth, kRowTiles, false, kPacked, WholeArguments>(call);
}

template <typename T, int kWidth>
cudaError_t launch_part(const AttentionForwardCall& call) {
  return dropout_threshold(call.problem.dropout_probability) != 0
             ? launch_rows<T, kWidth, 1, true, false, AttentionArguments>(call)
             : launch_rows<T, kWidth, kWidth <= 64 ? 2 : 1, false, false, AttentionArguments>(call);
}

template <typename T, int kWidth>
cudaError_t launch_width(const AttentionForwardCall& call) {
  if (is_part(call.problem, call.problem.output)) return launch_part<T, kWidth>(call);
  return call.problem.starts != nullptr ? launch_packing<T, kWidth, true>(call) : launch_packing<T, kWidth, false>(call);
}

// Selects the width at which a head is computed: the smallest of the compiled widths that fits. The extra
// columns are zeros.
template <typename T>
cudaError_t launch_dtype(const AttentionForwardCall& call) {
  const int64_t width = call.problem.head_size;
  if (width <= 64) return launch_width<T, 64>(call);
  if (width <= 80) return launch_width<T, 80>(call);
  if (width <= 96) return launch_width<T, 96>(call);
  if (width <= 128) return launch_width<T, 128>(call);
  if (width <= 192) return launch_width<T, 192>(call);
  return launch_width<T, 256>(call);
}

}  // namespace

cudaError_t launch_attention_forward(const AttentionForwardCall& call) {
  return call.problem.dtype == DType::kBFloat16 ? launch_dtype<__nv_bfloat16>(call) : launch_dtype<__half>(call);
}

}  // namespace mtl::cuda

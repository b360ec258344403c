// Flash attention, backward, gradient of the queries (Dao 2023, "FlashAttention-2", algorithm 2, with the
// loops exchanged for dq): a block takes 64 queries, loops over the keys and keeps the gradient in registers.
// attention_key_value_gradient.cu computes the other gradients. Both kernels recompute the scores. Together
// they need seven matmuls, two more than one kernel that accumulates dq in memory; in return every sum has a
// fixed order and nothing is accumulated in memory.
//
// spills allowed: 8 (bytes, on sm_80 with dropout only: one register at width 128, two at 256; none on
// sm_90a)
#include <type_traits>

#include "backends/cuda/attention/masks.cuh"
#include "backends/cuda/attention/query_statistics.cuh"
#include "backends/cuda/attention/results.cuh"

namespace mtl::cuda {
namespace {

template <typename T, int kWidth>
struct Shape {
  // the number of stages: 1 where 2 stages would exceed the 163 KB per block of an A100
  static constexpr int kStages = kWidth > 192 ? 1 : 2;
  static constexpr int kBytes = TileShape<kWidth>::elements((2 + 2 * kStages) * kTile) * static_cast<int>(sizeof(T));
  static_assert(kBytes <= kMaxSharedBytes);
};

// The type `Arguments` is WholeArguments, or AttentionArguments of samples that are not packed.
template <typename T, int kWidth, bool kDropout, typename Arguments>
__global__ void __launch_bounds__(kThreads) attention_query_gradient_kernel(Arguments a) {
  constexpr int kStride = TileShape<kWidth>::kStride, kStages = Shape<T, kWidth>::kStages;
  MTL_DYNAMIC_SHARED(bytes);
  T* query_tile = reinterpret_cast<T*>(bytes);
  T* gradient_tile = query_tile + kTile * kStride;
  T* stages = gradient_tile + kTile * kStride;

  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile;
  constexpr bool kPart = !std::is_same_v<Arguments, WholeArguments>;
  const HeadPlace place = kPart ? head_place(a, static_cast<int>(blockIdx.y)) : enter_head(a, static_cast<int>(blockIdx.y));
  if (first_query >= a.sequence) return;  // past the end of a packed sample
  const T *keys = rows_of<const T>(a.key, place), *values = keys + a.value_offset;
  const QueryRange range = query_range<kTile>(a, place.batch, first_query);
  const DropoutSite site = dropout_site(a, place);
  const Positions at = positions_of(a);
  const float scale_log2 = a.scale * kLog2E;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int query = first_query + warp_row + lane / 4;
  const Statistics known = statistics_of(a, place, query);

  const auto load_stage = [&](int stage, int first_key) {
    T* key_tile = stages + stage * 2 * kTile * kStride;
    load_tile<T, kWidth, kTile>(key_tile, keys, a.key.position, first_key, at.num_keys, a.head_size);
    load_tile<T, kWidth, kTile>(key_tile + kTile * kStride, values, a.key.position, first_key, at.num_keys, a.head_size);
  };
  float sums[kWidth / 8][4] = {};
  int first_key = next_key_tile(a, place.batch, range, range.any.begin / kTile * kTile);
  load_tile<T, kWidth, kTile>(query_tile, rows_of<const T>(a.query, place), a.query.position, first_query, a.sequence, a.head_size);
  load_tile<T, kWidth, kTile>(gradient_tile, rows_of<const T>(a.output_gradient, place), a.output_gradient.position, first_query,
                              a.sequence, a.head_size);
  if (first_key < range.any.end) load_stage(0, first_key);
  commit_copies();
  for (int stage = 0; first_key < range.any.end; stage = (stage + 1) % kStages) {
    const int next = next_key_tile(a, place.batch, range, first_key + kTile);
    if (kStages > 1 && next < range.any.end) load_stage(1 - stage, next);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();  // this stage's tiles have arrived
    const T* key_tile = stages + stage * 2 * kTile * kStride;
    const T* value_tile = key_tile + kTile * kStride;
    float scores[kTile / 8][4] = {}, gradients[kTile / 8][4] = {};
    multiply_transposed<T, kWidth, kTile>(scores, query_tile + warp_row * kStride, key_tile);
    multiply_transposed<T, kWidth, kTile>(gradients, gradient_tile + warp_row * kStride, value_tile);
    const KeyTile tile = {first_key, shown_keys(a, place.batch, first_key)};
    if (!all_visible(range, tile)) hide(scores, known.ranges, tile);
    if constexpr (kDropout) {
      drop(gradients, 0, site, at.first_query + query, at.first_key + tile.first);
      drop(gradients, 1, site, at.first_query + query + 8, at.first_key + tile.first);
    }
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float probability = fast_exp2(scores[n][i] * scale_log2 - known.log_sum_exp[i / 2]);
        const float gradient = kDropout ? gradients[n][i] * a.inverse_keep : gradients[n][i];
        scores[n][i] = probability * (gradient - known.delta[i / 2]);
      }
    }
    multiply_registers<T, kWidth, kTile>(sums, scores, key_tile);
    __syncthreads();  // no thread still reads this stage's tiles
    if (kStages == 1 && next < range.any.end) load_stage(0, next);
    if (kStages == 1) commit_copies();
    first_key = next;
  }
  wait_for_copies<0>();
  __syncthreads();  // the shared memory of the queries is reused to reorder their gradient
  // the offsets are computed again if positions need their registers
  const HeadPlace end = kPart ? head_place(a, reread_block_y()) : place;
  const int first_row = first_query + warp_row;
  store_results<T, kWidth>(a, a.query_gradient, end, first_row, a.sequence - first_row, 0, sums, {a.scale, a.scale},
                           query_tile + warp_row * kStride, a.accumulate);
}

template <typename T, int kWidth, typename Arguments>
cudaError_t launch_arguments(const AttentionBackwardCall& call) {
  const Arguments a = {attention_arguments(call.problem)};
  const unsigned num_tiles = static_cast<unsigned>((a.sequence + kTile - 1) / kTile);
  const Launch how = {dim3(num_tiles, static_cast<unsigned>(a.batch * a.heads)), kThreads, Shape<T, kWidth>::kBytes, call.stream};
  return a.dropout_threshold != 0 ? MTL_LAUNCH((attention_query_gradient_kernel<T, kWidth, true, Arguments>), how, a)
                                  : MTL_LAUNCH((attention_query_gradient_kernel<T, kWidth, false, Arguments>), how, a);
}

template <typename T, int kWidth>
cudaError_t launch_width(const AttentionBackwardCall& call) {
  return is_part(call.problem, call.problem.query_gradient) ? launch_arguments<T, kWidth, AttentionArguments>(call)
                                                            : launch_arguments<T, kWidth, WholeArguments>(call);
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

cudaError_t launch_attention_query_gradient(const AttentionBackwardCall& call) {
  return call.problem.dtype == DType::kBFloat16 ? launch_dtype<__nv_bfloat16>(call) : launch_dtype<__half>(call);
}

}  // namespace mtl::cuda

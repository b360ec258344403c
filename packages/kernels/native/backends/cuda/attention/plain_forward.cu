// Attention forward in plain arithmetic: the running maximum, sum and output of Dao 2023
// ("FlashAttention-2"), one warp per query.
#include "backends/cuda/attention/plain_rows.cuh"

namespace mtl::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kPlainThreads)
    plain_attention_forward_kernel(AttentionArguments a) {
  MTL_DYNAMIC_SHARED(bytes);
  const PlainShared shared = plain_shared(bytes, a.head_size);
  const auto [place, of_keys] = plain_enter_head(a, static_cast<int>(blockIdx.y));
  const int lane = static_cast<int>(threadIdx.x) % 32, first_query = static_cast<int>(blockIdx.x) * kPlainWarps;
  if (first_query >= a.sequence) return;  // past the end of a packed sample
  const int query = first_query + static_cast<int>(threadIdx.x) / 32;
  const bool real = query < a.sequence;
  const T *keys = rows_of<const T>(a.key, of_keys), *values = rows_of<const T>(a.value, of_keys);
  load_plain_row(shared.own_left, rows_of<const T>(a.query, place) + query * a.query.position, a.head_size, real);
  const KeyRange block_range = plain_range(a, place.batch, first_query);
  const KeyRange range = plain_keys_of_query(a, place.batch, query);
  const DropoutSite site = dropout_site(a, place);

  float sums[kMaxColumns] = {}, maximum = -INFINITY, denominator = 0.0f;
  for (int first_key = block_range.begin; first_key < block_range.end; first_key += kPlainRows) {
    __syncthreads();  // no thread still reads the previous tile
    load_plain_tile(shared.left, keys, a.key.position, first_key, a.num_keys, a.head_size);
    load_plain_tile(shared.right, values, a.value.position, first_key, a.num_keys, a.head_size);
    __syncthreads();
    const int key = first_key + lane;
    const bool visible = is_visible(a, place.batch, range, key);
    const float score = visible ? a.scale * plain_dot(shared.own_left, shared.left, a.head_size) : -INFINITY;
    const float highest = Maximum::combine(maximum, warp_reduce<Maximum>(score));
    if (highest == -INFINITY) continue;  // there is no key so far; the same in all lanes
    const float shrink = expf(maximum - highest), weight = visible ? expf(score - highest) : 0.0f;
    maximum = highest;
    denominator = denominator * shrink + warp_reduce<Sum>(weight);
#pragma unroll
    for (int number = 0; number < kMaxColumns; ++number) sums[number] *= shrink;
    plain_accumulate(sums, is_kept(a, site, query, key) ? weight : 0.0f, shared.right, a.head_size);
  }
  if (!real) return;
  const bool empty = denominator == 0.0f;
  const float factor = empty ? 0.0f : (site.threshold == 0 ? 1.0f : a.inverse_keep) / denominator;
  // the offsets are computed again, so that they take no registers in between
  const HeadPlace end = plain_enter_head(a, reread_block_y()).queries;
  store_plain_row<T>(a.output, end, query, sums, factor, a.head_size, false);
  if (lane == 0 && a.log_sum_exp != nullptr) {
    a.log_sum_exp[end.statistics + query] = empty ? static_cast<float>(kEmptyLogSumExp) : maximum + logf(denominator);
  }
}

template <typename T>
cudaError_t launch_dtype(const AttentionForwardCall& call) {
  const AttentionArguments a = attention_arguments(call.problem);
  return MTL_LAUNCH(plain_attention_forward_kernel<T>, plain_launch(a, a.sequence, a.heads, call.stream), a);
}

}  // namespace

cudaError_t launch_plain_attention_forward(const AttentionForwardCall& call) {
  if (call.problem.dtype == DType::kBFloat16) return launch_dtype<__nv_bfloat16>(call);
  return call.problem.dtype == DType::kFloat16 ? launch_dtype<__half>(call) : launch_dtype<float>(call);
}

}  // namespace mtl::cuda

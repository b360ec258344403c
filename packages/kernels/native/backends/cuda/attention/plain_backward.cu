// Attention backward in plain arithmetic (Dao 2023, "FlashAttention-2", algorithm 2): one warp per query,
// then one warp per key, so that every sum has a fixed order.
#include "backends/cuda/attention/plain_rows.cuh"

namespace mtl::cuda {
namespace {

// One probability and its gradient; both are 0 if the query does not attend to the key.
struct Entry {
  float kept;            // probability after dropout, the weight of the values
  float score_gradient;  // of the dot product of query and key
};

MTL_PTX Entry entry_of(const AttentionArguments& a, const DropoutSite& site, int query, int key, bool visible, float product,
                       float gradient, float log_sum_exp, float delta) {
  if (!visible) return {0.0f, 0.0f};
  const float probability = expf(a.scale * product - log_sum_exp);
  const float factor = site.threshold == 0 ? 1.0f : is_kept(a, site, query, key) ? a.inverse_keep : 0.0f;
  return {probability * factor, a.scale * probability * (factor * gradient - delta)};
}

template <typename T>
__global__ void __launch_bounds__(kPlainThreads)
    plain_attention_query_gradient_kernel(AttentionArguments a) {
  MTL_DYNAMIC_SHARED(bytes);
  const PlainShared shared = plain_shared(bytes, a.head_size);
  const auto [place, of_keys] = plain_enter_head(a, static_cast<int>(blockIdx.y));
  const int lane = static_cast<int>(threadIdx.x) % 32, first_query = static_cast<int>(blockIdx.x) * kPlainWarps;
  if (first_query >= a.sequence) return;  // past the end of a packed sample
  const int query = first_query + static_cast<int>(threadIdx.x) / 32;
  const bool real = query < a.sequence;
  const T *keys = rows_of<const T>(a.key, of_keys), *values = rows_of<const T>(a.value, of_keys);
  const T* output_gradients = rows_of<const T>(a.output_gradient, place);
  load_plain_row(shared.own_left, rows_of<const T>(a.query, place) + query * a.query.position, a.head_size, real);
  load_plain_row(shared.own_right, output_gradients + query * a.output_gradient.position, a.head_size, real);
  const KeyRange block_range = plain_range(a, place.batch, first_query);
  const KeyRange range = plain_keys_of_query(a, place.batch, query);
  const DropoutSite site = dropout_site(a, place);
  const float log_sum_exp = real ? a.log_sum_exp[place.statistics + query] : 0.0f;
  const float delta = real ? a.delta[place.statistics + query] : 0.0f;

  float sums[kMaxColumns] = {};
  for (int first_key = block_range.begin; first_key < block_range.end; first_key += kPlainRows) {
    __syncthreads();  // no thread still reads the previous tile
    load_plain_tile(shared.left, keys, a.key.position, first_key, a.num_keys, a.head_size);
    load_plain_tile(shared.right, values, a.value.position, first_key, a.num_keys, a.head_size);
    __syncthreads();
    const int key = first_key + lane;
    const Entry entry = entry_of(a, site, query, key, is_visible(a, place.batch, range, key),
                                 plain_dot(shared.own_left, shared.left, a.head_size),
                                 plain_dot(shared.own_right, shared.right, a.head_size), log_sum_exp, delta);
    plain_accumulate(sums, entry.score_gradient, shared.left, a.head_size);
  }
  if (!real) return;
  // the offsets are computed again, so that they take no registers in between
  const HeadPlace end = plain_enter_head(a, static_cast<int>(blockIdx.y)).queries;
  store_plain_row<T>(a.query_gradient, end, query, sums, 1.0f, a.head_size, a.accumulate);
}

template <typename T>
__global__ void __launch_bounds__(kPlainThreads)
    plain_attention_key_value_gradient_kernel(AttentionArguments a) {
  MTL_DYNAMIC_SHARED(bytes);
  const PlainShared shared = plain_shared(bytes, a.head_size);
  auto [place, of_keys] = plain_enter_head(a, static_cast<int>(blockIdx.y) * a.members);  // the first head of a group
  const int lane = static_cast<int>(threadIdx.x) % 32, first_key = static_cast<int>(blockIdx.x) * kPlainWarps;
  if (first_key >= a.num_keys) return;  // past the end of a packed sample
  const int key = first_key + static_cast<int>(threadIdx.x) / 32;
  const bool real = key < a.num_keys;
  load_plain_row(shared.own_left, rows_of<const T>(a.key, of_keys) + key * a.key.position, a.head_size, real);
  load_plain_row(shared.own_right, rows_of<const T>(a.value, of_keys) + key * a.value.position, a.head_size, real);

  const KeyRange seeing = plain_queries_of_keys(a, first_key);
  float key_sums[kMaxColumns] = {}, value_sums[kMaxColumns] = {};
  for (; place.member < a.members; enter_next_member(a, place)) {
    const T* queries = rows_of<const T>(a.query, place);
    const T* output_gradients = rows_of<const T>(a.output_gradient, place);
    const DropoutSite site = dropout_site(a, place);
    for (int first_query = seeing.begin; first_query < seeing.end; first_query += kPlainRows) {
      __syncthreads();  // no thread still reads the previous tile
      load_plain_tile(shared.left, queries, a.query.position, first_query, a.sequence, a.head_size);
      load_plain_tile(shared.right, output_gradients, a.output_gradient.position, first_query, a.sequence, a.head_size);
      __syncthreads();
      const int query = first_query + lane;
      const bool visible = real && is_visible(a, place.batch, plain_keys_of_query(a, place.batch, query), key);
      const float log_sum_exp = visible ? a.log_sum_exp[place.statistics + query] : 0.0f;
      const float delta = visible ? a.delta[place.statistics + query] : 0.0f;
      const Entry entry = entry_of(a, site, query, key, visible, plain_dot(shared.own_left, shared.left, a.head_size),
                                   plain_dot(shared.own_right, shared.right, a.head_size), log_sum_exp, delta);
      plain_accumulate(key_sums, entry.score_gradient, shared.left, a.head_size);
      plain_accumulate(value_sums, entry.kept, shared.right, a.head_size);
    }
  }
  if (!real) return;
  store_plain_row<T>(a.key_gradient, of_keys, key, key_sums, 1.0f, a.head_size, a.accumulate);
  store_plain_row<T>(a.value_gradient, of_keys, key, value_sums, 1.0f, a.head_size, a.accumulate);
}

template <typename T>
cudaError_t launch_dtype(const AttentionBackwardCall& call) {
  const AttentionArguments a = attention_arguments(call.problem);
  const cudaError_t status = MTL_LAUNCH(plain_attention_query_gradient_kernel<T>, plain_launch(a, a.sequence, a.heads, call.stream), a);
  if (status != cudaSuccess) return status;
  return MTL_LAUNCH(plain_attention_key_value_gradient_kernel<T>, plain_launch(a, a.num_keys, a.heads / a.members, call.stream), a);
}

}  // namespace

cudaError_t launch_plain_attention_backward(const AttentionBackwardCall& call) {
  if (call.problem.dtype == DType::kBFloat16) return launch_dtype<__nv_bfloat16>(call);
  return call.problem.dtype == DType::kFloat16 ? launch_dtype<__half>(call) : launch_dtype<float>(call);
}

}  // namespace mtl::cuda

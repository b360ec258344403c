// Attention forward of few queries without logSumExp: one block for each query and head. The time is the time
// to read the keys and values of a cache once, which warps do key by key.
#include "backends/cuda/attention/plain_rows.cuh"

namespace mtl::cuda {
namespace {

constexpr int kScanThreads = 256, kScanWarps = kScanThreads / 32;
constexpr int kKeysAtOnce = 512;  // the number of scores kept at a time

// Computes the scores of `count` keys, whose rows begin at `keys`. The keys are distributed over the warps.
template <typename T>
__device__ void score_keys(const AttentionArguments& a, const float* query, const T* keys, int count, float* scores) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int key = warp; key < count; key += kScanWarps) {
    const T* const row = keys + key * a.key.position;
    float sum = 0.0f;
    for (int d = lane; d < a.head_size; d += 32) sum += query[d] * Numbers<T>::widen(row[d]);
    sum = warp_reduce<Sum>(sum);
    if (lane == 0) scores[key] = sum * a.scale;
  }
}

// Block (x, y) computes query x of head y, where y counts the heads of all samples.
template <typename T>
__global__ void __launch_bounds__(kScanThreads) generation_attention_kernel(AttentionArguments a) {
  MTL_SHARED(float, scores, [kKeysAtOnce]);
  MTL_SHARED(float, shared, [kMaxWarps]);
  MTL_DYNAMIC_SHARED(bytes);
  float* const query = reinterpret_cast<float*>(bytes);
  float* const sums = query + a.head_size;
  const int thread = static_cast<int>(threadIdx.x);
  const HeadPlace place = head_place(a, static_cast<int>(blockIdx.y));
  const KeyRange range = plain_keys_of_query(a, place.batch, static_cast<int>(blockIdx.x));
  const T *keys = rows_of<const T>(a.key, place), *values = rows_of<const T>(a.value, place);
  const T* const query_row = rows_of<const T>(a.query, place) + int64_t{blockIdx.x} * a.query.position;
  for (int d = thread; d < a.head_size; d += kScanThreads) {
    query[d] = Numbers<T>::widen(query_row[d]);
    sums[d] = 0.0f;
  }
  __syncthreads();
  float maximum = -INFINITY, denominator = 0.0f;
  for (int first = range.begin; first < range.end; first += kKeysAtOnce) {
    const int count = min(kKeysAtOnce, range.end - first);
    score_keys(a, query, keys + first * a.key.position, count, scores);
    __syncthreads();
    float greatest = -INFINITY;
    for (int key = thread; key < count; key += kScanThreads) greatest = fmaxf(greatest, scores[key]);
    greatest = fmaxf(maximum, block_reduce<Maximum>(greatest, shared));
    // the sums so far are rescaled to the new maximum
    const float moved = maximum == -INFINITY ? 0.0f : expf(maximum - greatest);
    maximum = greatest;
    float total = 0.0f;
    for (int key = thread; key < count; key += kScanThreads) {
      scores[key] = expf(scores[key] - maximum);
      total += scores[key];
    }
    denominator = denominator * moved + block_reduce<Sum>(total, shared);
    __syncthreads();
    for (int d = thread; d < a.head_size; d += kScanThreads) {
      float sum = sums[d] * moved;
      for (int key = 0; key < count; ++key) sum += scores[key] * Numbers<T>::widen(values[(first + key) * a.value.position + d]);
      sums[d] = sum;
    }
    __syncthreads();
  }
  const int64_t at = first_element(a.output, place) + int64_t{blockIdx.x} * a.output.position;
  // a query without visible keys gives 0: both the sums and the denominator are 0
  const float divisor = denominator == 0.0f ? 1.0f : denominator;
#pragma unroll 1
  for (int d = thread; d < a.head_size; d += kScanThreads) {
    const float value = sums[d] / divisor;
    if (a.output.dtype == DType::kFloat32) {
      static_cast<float*>(a.output.data)[at + d] = value;
    } else {
      static_cast<T*>(a.output.data)[at + d] = Numbers<T>::narrow(value);
    }
  }
}

template <typename T>
cudaError_t launch_dtype(const AttentionForwardCall& call) {
  const AttentionArguments a = attention_arguments(call.problem);
  const Launch how = {dim3(static_cast<unsigned>(a.sequence), static_cast<unsigned>(a.batch * a.heads)), kScanThreads,
                      2 * static_cast<size_t>(a.head_size) * sizeof(float), call.stream};
  return MTL_LAUNCH(generation_attention_kernel<T>, how, a);
}

}  // namespace

cudaError_t launch_generation_attention(const AttentionForwardCall& call) {
  if (call.problem.dtype == DType::kBFloat16) return launch_dtype<__nv_bfloat16>(call);
  return call.problem.dtype == DType::kFloat16 ? launch_dtype<__half>(call) : launch_dtype<float>(call);
}

}  // namespace mtl::cuda

// attention_cached_forward: one launch stores the new keys and values; a second has one block per new
// position and head. Bound by reading the caches once, which warps do key by key.
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/dispatch.h"
#include "ops/attention.h"

namespace mtl::cuda {
namespace {

constexpr int kWarps = kThreads / 32;
constexpr int kKeysAtOnce = 512;  // scores kept at a time

template <typename T>
struct Cached {
  T *keys, *values, *output;  // [B, G, M, D], [B, G, M, D], [Q, B, A, D]
  const T* qkv;               // [Q, B, G, R + 2, D]
  int64_t groups, members;    // B * G, R
  int64_t capacity, size, position;
  float scale;
};

// The first element of a position's queries of a group in qkv.
template <typename T>
__device__ int64_t queries_at(const Cached<T>& c, int64_t position, int64_t group) {
  return (position * c.groups + group) * (c.members + 2) * c.size;
}

// Block (x, y): position x of group y.
template <typename T>
__global__ void store_kernel(Cached<T> c) {
  const int64_t from = queries_at(c, blockIdx.x, blockIdx.y) + c.members * c.size;
  const int64_t to = (int64_t{blockIdx.y} * c.capacity + c.position + blockIdx.x) * c.size;
  for (int64_t d = threadIdx.x; d < c.size; d += blockDim.x) {
    c.keys[to + d] = c.qkv[from + d];
    c.values[to + d] = c.qkv[from + c.size + d];
  }
}

// The scores of keys [first, first + count), distributed over the warps.
template <typename T>
__device__ void score_keys(const Cached<T>& c, const float* query, int64_t group, int64_t first, int count, float* scores) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int key = warp; key < count; key += kWarps) {
    const T* const row = c.keys + (group * c.capacity + first + key) * c.size;
    float sum = 0.0f;
    for (int64_t d = lane; d < c.size; d += 32) sum += query[d] * to_float(row[d]);
    sum = warp_reduce<Sum>(sum);
    if (lane == 0) scores[key] = sum * c.scale;
  }
}

// Block (x, y): position x of query head y of all samples.
template <typename T>
__global__ void attend_kernel(Cached<T> c) {
  MTL_SHARED(float, scores, [kKeysAtOnce]);
  MTL_SHARED(float, shared, [kMaxWarps]);
  MTL_DYNAMIC_SHARED(bytes);
  float* const query = reinterpret_cast<float*>(bytes);
  float* const sums = query + c.size;
  const int64_t position = blockIdx.x, head = blockIdx.y, num_keys = c.position + position + 1;
  const int64_t group = head / c.members;
  for (int64_t d = threadIdx.x; d < c.size; d += blockDim.x) {
    query[d] = to_float(c.qkv[queries_at(c, position, group) + head % c.members * c.size + d]);
    sums[d] = 0.0f;
  }
  __syncthreads();
  float maximum = -INFINITY, denominator = 0.0f;
  for (int64_t first = 0; first < num_keys; first += kKeysAtOnce) {
    const int count = static_cast<int>(min(int64_t{kKeysAtOnce}, num_keys - first));
    score_keys(c, query, group, first, count, scores);
    __syncthreads();
    float greatest = -INFINITY;
    for (int key = static_cast<int>(threadIdx.x); key < count; key += kThreads) greatest = fmaxf(greatest, scores[key]);
    greatest = fmaxf(maximum, block_reduce<Maximum>(greatest, shared));
    // the sums so far are rescaled to the new maximum
    const float moved = maximum == -INFINITY ? 0.0f : expf(maximum - greatest);
    maximum = greatest;
    float total = 0.0f;
    for (int key = static_cast<int>(threadIdx.x); key < count; key += kThreads) {
      scores[key] = expf(scores[key] - maximum);
      total += scores[key];
    }
    denominator = denominator * moved + block_reduce<Sum>(total, shared);
    __syncthreads();
    for (int64_t d = threadIdx.x; d < c.size; d += blockDim.x) {
      float sum = sums[d] * moved;
      for (int key = 0; key < count; ++key) {
        sum += scores[key] * to_float(c.values[(group * c.capacity + first + key) * c.size + d]);
      }
      sums[d] = sum;
    }
    __syncthreads();
  }
  for (int64_t d = threadIdx.x; d < c.size; d += blockDim.x) {
    set(c.output + (position * c.groups * c.members + head) * c.size + d, sums[d] / denominator);
  }
}

template <typename T>
Status forward_of(const OpCall& call) {
  const AttentionProblem problem = attention_cached_problem(call);
  if (problem.heads == 0) return ok_status();
  const int64_t queries = problem.num_queries, heads = problem.batch * problem.heads;
  const Cached<T> c = {static_cast<T*>(problem.key.data),
                       static_cast<T*>(problem.value.data),
                       static_cast<T*>(problem.output.data),
                       static_cast<const T*>(problem.query.data),
                       problem.batch * problem.groups,
                       problem.heads / problem.groups,
                       call.tensor(AttentionCachedForward::kKeyCache).dim(2),
                       problem.head_size,
                       problem.first_query,
                       static_cast<float>(problem.scale)};
  MTL_RUN_KERNEL(call, (store_kernel<T>), grid_of(queries, row_threads(c.size), c.groups), c);
  Launch attend = grid_of(queries, kThreads, heads);
  attend.shared_bytes = static_cast<size_t>(2 * c.size) * sizeof(float);
  MTL_RUN_KERNEL(call, (attend_kernel<T>), attend, c);
  return ok_status();
}

Status forward(const OpCall& call) {
  return for_floating(call, call.tensor(AttentionCachedForward::kQkv).dtype,
                      [&](auto* type) { return forward_of<std::remove_pointer_t<decltype(type)>>(call); });
}

MTL_REGISTER_CUDA("attention_cached_forward", forward);

}  // namespace
}  // namespace mtl::cuda

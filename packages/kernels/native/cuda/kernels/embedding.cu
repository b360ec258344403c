// embedding_forward and embedding_backward.
//
// The gradient of a table row is the sum over the tokens that have its id, in token order, as on the CPU: no atomics.
// The first token of each id collects the others, so that each row is read and written once.
#include "cuda/kernels/dispatch.h"

namespace mtl::cuda {
namespace {

template <typename T, int N>
__global__ void forward_kernel(T* output, const int32_t* ids, const T* table, int64_t columns, int64_t first_row,
                               int64_t num_rows, bool accumulate) {
  const int64_t token = blockIdx.x, row = ids[token] - first_row;
  const bool inside = row >= 0 && row < num_rows;
  for (int64_t column = int64_t{threadIdx.x} * N; column < columns; column += int64_t{blockDim.x} * N) {
    float values[N] = {};
    if (inside) load(values, table + row * columns + column);
    if (accumulate) {
      float before[N];
      load(before, output + token * columns + column);
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] += before[i];
    }
    store(output + token * columns + column, values);
  }
}

constexpr int kBackwardThreads = 128;
constexpr int kBatch = 8;  // gradients under way at a time

// Whether a token in [begin, end) has the id; the same answer for the whole block.
__device__ bool occurs_before(const int32_t* ids, int64_t end, int32_t id, int* found) {
  for (int64_t start = 0; start < end; start += kBackwardThreads) {
    const int64_t token = start + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) *found = 0;
    __syncthreads();
    if (token < end && ids[token] == id) *found = 1;  // every thread that writes writes the same
    __syncthreads();
    if (*found != 0) return true;
  }
  return false;
}

// Block (x, y): the tokens with the id of token x, if it is the first of them; columns y * kBackwardThreads * N onwards.
template <typename T, int N>
__global__ void backward_kernel(float* gradient, const T* output_gradient, const int32_t* ids, int64_t tokens,
                                int64_t columns, int64_t first_row, int64_t num_rows) {
  MTL_SHARED(int, found, [1]);
  MTL_SHARED(int, matches, [kBackwardThreads]);
  MTL_SHARED(unsigned, votes, [kBackwardThreads / 32]);
  const int64_t first_token = blockIdx.x;
  const int32_t id = ids[first_token];
  const int64_t row = id - first_row;
  if (row < 0 || row >= num_rows || occurs_before(ids, first_token, id, found)) return;
  const int64_t column = (int64_t{blockIdx.y} * kBackwardThreads + threadIdx.x) * N;
  const bool inside = column < columns;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  float total[N] = {};
  if (inside) load(total, gradient + row * columns + column);
  for (int64_t start = first_token; start < tokens; start += kBackwardThreads) {
    // the matching tokens of this stretch, in order
    const int64_t token = start + threadIdx.x;
    const unsigned vote = __ballot_sync(0xffffffffu, token < tokens && ids[token] == id);
    if (lane == 0) votes[warp] = vote;
    __syncthreads();
    int count = 0, before = 0;
    for (int other = 0; other < kBackwardThreads / 32; ++other) {
      if (other == warp) before = count + __popc(vote & ((1u << lane) - 1u));
      count += __popc(votes[other]);
    }
    if (vote >> lane & 1u) matches[before] = static_cast<int>(threadIdx.x);
    __syncthreads();
    for (int first = 0; first < count && inside; first += kBatch) {
      float values[kBatch][N];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int64_t from = start + matches[min(first + i, count - 1)];
        load(values[i], output_gradient + from * columns + column);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (first + i >= count) break;
#pragma unroll
        for (int j = 0; j < N; ++j) total[j] += values[i][j];
      }
    }
    __syncthreads();
  }
  if (inside) store(gradient + row * columns + column, total);
}

template <typename T>
Status forward_of(const OpCall& call) {
  const int64_t tokens = call.tensor(0).rows(), columns = call.tensor(0).dim(-1), num_rows = call.tensor(2).dim(0);
  T* const output = call.data<T>(0);
  const T* const table = call.data<T>(2);
  return for_width<T>(is_packed<T>(columns, {output, table}), [&](auto width) {
    constexpr int N = decltype(width)::value;
    MTL_RUN_KERNEL(call, (forward_kernel<T, N>), grid_of(tokens, row_threads(ceiling(columns, N))), output,
                   call.data<int32_t>(1), table, columns, call.integer(0), num_rows, call.flag(1));
    return ok_status();
  });
}

template <typename T>
Status backward_of(const OpCall& call) {
  const int64_t tokens = call.tensor(1).rows(), columns = call.tensor(0).dim(-1), num_rows = call.tensor(0).dim(0);
  float* const gradient = call.data<float>(0);
  const T* const output_gradient = call.data<T>(1);
  return for_width<T>(is_packed<T>(columns, {gradient, output_gradient}), [&](auto width) {
    constexpr int N = decltype(width)::value;
    const int64_t blocks_y = ceiling(columns, int64_t{kBackwardThreads} * N);
    MTL_RUN_KERNEL(call, (backward_kernel<T, N>), grid_of(tokens, kBackwardThreads, blocks_y), gradient, output_gradient,
                   call.data<int32_t>(2), tokens, columns, call.integer(0), num_rows);
    return ok_status();
  });
}

Status forward(const OpCall& call) {
  return for_floating(call, call.tensor(0).dtype,
                      [&](auto* type) { return forward_of<std::remove_pointer_t<decltype(type)>>(call); });
}

Status backward(const OpCall& call) {
  return for_floating(call, call.tensor(1).dtype,
                      [&](auto* type) { return backward_of<std::remove_pointer_t<decltype(type)>>(call); });
}

MTL_REGISTER_CUDA("embedding_forward", forward);
MTL_REGISTER_CUDA("embedding_backward", backward);

}  // namespace
}  // namespace mtl::cuda

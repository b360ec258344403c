// embedding_forward and embedding_backward.
//
// The gradient of a table row is the sum over the tokens that have the row's id. Tokens are sorted by row and
// split into chunks of equal size, even if an id occurs often: a block sums its chunk row by row in token
// order. The partial sums of a row that spans several chunks are added in order afterwards. There are no
// atomics. Each gradient is read once, and each row is read and written once.
#include "backends/cuda/index_check.cuh"
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/dispatch.h"
#include "backends/cuda/kernels/sort_rows.h"
#include "backends/cuda/scratch/embedding.h"
#include "ops/embedding.h"

namespace mtl::cuda {
namespace {

template <typename T, int N>
__global__ void forward_kernel(T* output, const int32_t* ids, const T* table, int64_t columns, int64_t first_row,
                               int64_t num_rows, bool accumulate, IndexCheck check) {
  const int64_t token = blockIdx.x, row = ids[token] - first_row;
  const bool inside = row >= 0 && row < num_rows, is_valid = check.is_valid(ids[token]);
  if (!is_valid && threadIdx.x == 0) check.refuse(token, ids[token]);
  for (int64_t column = int64_t{threadIdx.x} * N; column < columns; column += int64_t{blockDim.x} * N) {
    float values[N] = {};
    if (inside) load(values, table + row * columns + column);
    if (accumulate) {
      float before[N];
      load(before, output + token * columns + column);
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] += before[i];
    }
    if (!is_valid) {
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] = NAN;
    }
    store(output + token * columns + column, values);
  }
}

constexpr int kBackwardThreads = 128;
constexpr int kBatch = 4;   // gradient loads in flight
constexpr int kPartials = 16;

// Partial sums of rows that span chunks, [chunks, 2, columns]. Each chunk has the sum of the row that
// continues from the previous chunk, and the sum of the row that continues in the next chunk.
struct Partials {
  float* sums;
  int64_t columns;
  __device__ __forceinline__ float* begun_before(int64_t chunk) const { return sums + 2 * chunk * columns; }
  __device__ __forceinline__ float* going_on(int64_t chunk) const { return sums + (2 * chunk + 1) * columns; }
};

struct SortedTokens {
  SortedRows sorted;
  int64_t count, num_rows;

  // Returns the row of a token. Returns -1 for a token beyond either end, and for a token of another table's
  // row
  __device__ __forceinline__ int row(int64_t position) const {
    if (position < 0 || position >= count) return -1;
    const int row = sorted.rows[position];
    return row < num_rows ? row : -1;
  }
};

// Block (x, y) sums tokens from x * kChunk on, in the order sorted by row, and columns from y * blockDim.x *
// N on. It writes the sum of a row immediately if all tokens of the row are in this chunk.
template <typename T, int N>
__global__ void sum_chunks_kernel(float* gradient, Partials partials, const T* output_gradient, SortedTokens tokens) {
  MTL_SHARED(int, rows, [kChunk + 2]);  // also of the previous and the next token
  MTL_SHARED(int, numbers, [kChunk]);
  const int64_t chunk = blockIdx.x, begin = chunk * kChunk, columns = partials.columns;
  for (int i = static_cast<int>(threadIdx.x); i < kChunk + 2; i += static_cast<int>(blockDim.x)) {
    rows[i] = tokens.row(begin + i - 1);
    if (i < kChunk) numbers[i] = begin + i < tokens.count ? tokens.sorted.numbers[begin + i] : 0;
  }
  __syncthreads();
  const int64_t column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * N;
  if (column >= columns) return;
  const int row_before = rows[0];
  float total[N] = {};
  for (int first = 0; first < kChunk && rows[first + 1] >= 0; first += kBatch) {
    float values[kBatch][N], sums[kBatch][N];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int row = rows[first + i + 1];
      if (row < 0) continue;
      load(values[i], output_gradient + numbers[first + i] * columns + column);
      if (rows[first + i + 2] != row && row != row_before) load(sums[i], gradient + row * columns + column);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int row = rows[first + i + 1];
      if (row < 0) continue;
#pragma unroll
      for (int j = 0; j < N; ++j) total[j] += values[i][j];
      const bool goes_on = rows[first + i + 2] == row;
      if (goes_on && first + i + 1 < kChunk) continue;
      if (row == row_before) {
        store(partials.begun_before(chunk) + column, total);
      } else if (goes_on) {
        store(partials.going_on(chunk) + column, total);
      } else {
#pragma unroll
        for (int j = 0; j < N; ++j) sums[i][j] += total[j];
        store(gradient + row * columns + column, sums[i]);
      }
#pragma unroll
      for (int j = 0; j < N; ++j) total[j] = 0.0f;
    }
  }
}

// Returns the number of consecutive chunks, from `chunk` on, that begin with the row; the same on all lanes.
__device__ __forceinline__ int64_t chunks_of_row(const SortedTokens& tokens, int64_t chunk, int row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t found = 0;; found += 32) {
    const unsigned vote = __ballot_sync(kWholeWarp, tokens.row((chunk + found + lane) * kChunk) == row);
    if (vote != kWholeWarp) return found + __popc(vote);  // no gaps, because rows are sorted
  }
}

// Block (x, y) adds the chunks of a row, in order, if the row begins in chunk x and continues in the next
// chunk.
template <int N>
__global__ void add_chunks_kernel(float* gradient, Partials partials, SortedTokens tokens) {
  const int64_t chunk = blockIdx.x, begin = chunk * kChunk, columns = partials.columns;
  const int row = tokens.row(begin + kChunk - 1);
  if (row < 0 || tokens.row(begin + kChunk) != row || tokens.row(begin - 1) == row) return;
  const int64_t num_more = chunks_of_row(tokens, chunk + 1, row);
  const int64_t column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * N;
  if (column >= columns) return;
  float total[N], sum[N];
  load(sum, gradient + row * columns + column);
  load(total, partials.going_on(chunk) + column);
  for (int64_t first = 0; first < num_more; first += kPartials) {
    float values[kPartials][N];
#pragma unroll
    for (int i = 0; i < kPartials; ++i) {
      if (first + i < num_more) load(values[i], partials.begun_before(chunk + 1 + first + i) + column);
    }
#pragma unroll
    for (int i = 0; i < kPartials; ++i) {
      if (first + i >= num_more) break;
#pragma unroll
      for (int j = 0; j < N; ++j) total[j] += values[i][j];
    }
  }
#pragma unroll
  for (int j = 0; j < N; ++j) sum[j] += total[j];
  store(gradient + row * columns + column, sum);
}

template <typename T>
Status forward_of(const OpCall& call) {
  using Op = EmbeddingForward;
  const int64_t tokens = call.tensor(Op::kOutput).rows(), columns = call.tensor(Op::kOutput).dim(-1),
      num_rows = call.tensor(Op::kTable).dim(0);
  T* const output = call.data<T>(Op::kOutput);
  const T* const table = call.data<T>(Op::kTable);
  return for_width<T>(is_packed<T>(columns, {output, table}), [&](auto width) {
    constexpr int N = decltype(width)::value;
    MTL_RUN_KERNEL(call, (forward_kernel<T, N>), grid_of(tokens, row_threads(ceiling(columns, N))), output,
                   call.data<int32_t>(Op::kIds), table, columns, call.integer(Op::kFirstRow), num_rows,
                       call.flag(Op::kAccumulate),
                   IndexCheck{index_report(), call.op, "ids", call.integer(Op::kNumRows)});
    return ok_status();
  });
}

template <typename T>
Status backward_of(const OpCall& call) {
  using Op = EmbeddingBackward;
  const int64_t columns = call.tensor(Op::kTableGradient).dim(-1);
  const RowIds ids = {call.data<int32_t>(Op::kIds), call.tensor(Op::kOutputGradient).rows(),
                      call.integer(Op::kFirstRow), call.tensor(Op::kTableGradient).dim(0),
                      {index_report(), call.op, "ids", call.integer(Op::kNumRows)}};
  if (ids.count == 0 || columns == 0) return ok_status();
  const int64_t num_chunks = ceiling(ids.count, kChunk);
  KernelScratch scratch;
  MTL_RETURN_IF_ERROR(scratch.take(call));
  SortedTokens tokens = {{}, ids.count, ids.num_rows};
  MTL_RETURN_IF_ERROR(sort_rows(call, ids, scratch.as<void>(0), &tokens.sorted));
  float* const gradient = call.data<float>(Op::kTableGradient);
  const T* const output_gradient = call.data<T>(Op::kOutputGradient);
  const Partials partials = {scratch.as<float>(1), columns};
  const auto grid = [&](int width) {
    const int threads = row_threads(ceiling(columns, width), kBackwardThreads);
    return grid_of(num_chunks, threads, ceiling(columns, int64_t{threads} * width));
  };
  MTL_RETURN_IF_ERROR(for_width<T>(is_packed<T>(columns, {gradient, output_gradient}), [&](auto width) {
    constexpr int N = decltype(width)::value;
    MTL_RUN_KERNEL(call, (sum_chunks_kernel<T, N>), grid(N), gradient, partials, output_gradient, tokens);
    return ok_status();
  }));
  return for_width<float>(is_packed<float>(columns, {gradient}), [&](auto width) {
    constexpr int N = decltype(width)::value;
    MTL_RUN_KERNEL(call, add_chunks_kernel<N>, grid(N), gradient, partials, tokens);
    return ok_status();
  });
}

Status forward(const OpCall& call) {
  using Op = EmbeddingForward;
  return for_floating(call, call.tensor(Op::kOutput).dtype,
                      [&](auto* type) { return forward_of<std::remove_pointer_t<decltype(type)>>(call); });
}

Status backward(const OpCall& call) {
  using Op = EmbeddingBackward;
  return for_floating(call, call.tensor(Op::kOutputGradient).dtype,
                      [&](auto* type) { return backward_of<std::remove_pointer_t<decltype(type)>>(call); });
}

MTL_REGISTER_CUDA("embedding_forward", forward);
MTL_REGISTER_CUDA("embedding_backward", backward);

}  // namespace
}  // namespace mtl::cuda

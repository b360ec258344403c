// sum_rows, and the second pass of every sum over rows.
#include "backends/cuda/kernels/column_sums.h"

#include "backends/cuda/kernels/dispatch.h"
#include "backends/cuda/scratch/reductions.h"
#include "ops/reductions.h"

namespace mtl::cuda {
namespace {

constexpr int kLanes = 32;  // neighbouring threads, with N columns each

constexpr int kSumWarps = 32;  // warps of a block that adds lines: each takes every kSumWarps-th line
constexpr int kLoads = 4;      // lines or rows in flight per warp

// Adds the lines of partial sums. A block has 32 columns, and its warps take the lines in turn. A single warp
// would often wait for memory, because 32 columns occupy only a small part of the device.
__global__ void __launch_bounds__(32 * kSumWarps)
    add_lines_kernel(ColumnSums sums, const float* partial, int64_t num_lines, int64_t width) {
  MTL_SHARED(float, parts, [kSumWarps][32]);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int num_warps = static_cast<int>(blockDim.x) / 32;
  const int64_t column = int64_t{blockIdx.x} * 32 + lane;
  float total = 0.0f;
  for (int64_t line = warp; line < num_lines; line += int64_t{kLoads} * num_warps) {
    float values[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t at = line + int64_t{i} * num_warps;
      values[i] = at < num_lines && column < width ? partial[at * width + column] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) total += values[i];
  }
  parts[warp][lane] = total;
  __syncthreads();
  if (warp != 0 || column >= width) return;
  for (int other = 1; other < num_warps; ++other) total += parts[other][lane];
  float* const to = column < sums.columns ? sums.first + column : sums.second + (column - sums.columns);
  *to = sums.accumulate ? *to + total : total;
}

// Block (x, y) sums columns from x * kLanes * N on, of rows from y * rows_per_line on.
template <typename T, int N>
__global__ void sum_rows_kernel(float* partial, const T* input, int64_t rows, int64_t columns, int64_t rows_per_line) {
  MTL_SHARED(float, sums, [kRowsAtOnce][kLanes * N]);
  const int lane = static_cast<int>(threadIdx.x) % kLanes, slot = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t first_column = int64_t{blockIdx.x} * kLanes * N, column = first_column + int64_t{lane} * N;
  const int64_t first = int64_t{blockIdx.y} * rows_per_line, end = min(first + rows_per_line, rows);
  float total[N] = {};
  if (column < columns) {
    // several loads are in flight, because a thread with a single load would wait for memory at every row
    int64_t row = first + slot;
    for (; row + (kLoads - 1) * kRowsAtOnce < end; row += kLoads * kRowsAtOnce) {
      float values[kLoads][N];
#pragma unroll
      for (int next = 0; next < kLoads; ++next) load(values[next], input + (row + next * kRowsAtOnce) * columns + column);
#pragma unroll
      for (int next = 0; next < kLoads; ++next) {
#pragma unroll
        for (int i = 0; i < N; ++i) total[i] += values[next][i];
      }
    }
    for (; row < end; row += kRowsAtOnce) {
      float values[N];
      load(values, input + row * columns + column);
#pragma unroll
      for (int i = 0; i < N; ++i) total[i] += values[i];
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) sums[slot][lane * N + i] = total[i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kLanes * N && first_column + i < columns;
       i += static_cast<int>(blockDim.x)) {
    float sum = 0.0f;
    for (int from = 0; from < kRowsAtOnce; ++from) sum += sums[from][i];
    partial[int64_t{blockIdx.y} * columns + first_column + i] = sum;
  }
}

template <typename T>
Status sum_rows_of(const OpCall& call) {
  using Op = SumRows;
  const int64_t rows = call.tensor(Op::kInput).rows(), columns = call.tensor(Op::kInput).dim(-1);
  const T* const input = call.data<T>(Op::kInput);
  const int64_t rows_per_line = rows_per_line_of(rows), num_lines = num_lines_of(rows);
  KernelScratch scratch;
  MTL_RETURN_IF_ERROR(scratch.take(call));
  float* const partial = scratch.as<float>(0);
  MTL_RETURN_IF_ERROR(for_width<T>(is_packed<T>(columns, {input}), [&](auto width) {
    constexpr int N = decltype(width)::value;
    MTL_RUN_KERNEL(call, (sum_rows_kernel<T, N>),
                   grid_of(ceiling(columns, int64_t{kLanes} * N), kLanes * kRowsAtOnce, num_lines),
                   partial, input, rows, columns, rows_per_line);
    return ok_status();
  }));
  return add_lines(call, {call.data<float>(Op::kOutput), nullptr, columns, call.flag(Op::kAccumulate)},
                   partial, num_lines);
}

Status sum_rows(const OpCall& call) {
  using Op = SumRows;
  return for_floating(call, call.tensor(Op::kInput).dtype,
                      [&](auto* type) { return sum_rows_of<std::remove_pointer_t<decltype(type)>>(call); });
}

MTL_REGISTER_CUDA("sum_rows", sum_rows);

}  // namespace

Status add_lines(const OpCall& call, const ColumnSums& sums, const float* partial, int64_t num_lines) {
  const int64_t width = sums.second == nullptr ? sums.columns : 2 * sums.columns;
  // no more warps than lines; the number of lines depends on the shape and the device
  const int threads = row_threads(32 * num_lines, 32 * kSumWarps);
  MTL_RUN_KERNEL(call, add_lines_kernel, grid_of(ceiling(width, 32), threads), sums, partial, num_lines, width);
  return ok_status();
}

}  // namespace mtl::cuda

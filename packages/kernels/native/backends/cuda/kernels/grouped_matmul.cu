// grouped_matmul and grouped_weight_gradient. The grid has the number of blocks that can run on the GPU at
// the same time. Blocks take one output tile after the other, group by group, so that the offsets stay on the
// device. A tile's operands go through shared memory, a few steps of the inner dimension at a time; 16-bit
// operands are multiplied by matrix instructions, float32 operands by fused multiply-adds. The steps of a sum
// are in ascending order for every group.
#include "ops/grouped_matmul.h"

#include "backends/cuda/instructions/ptx.h"
#include "backends/cuda/kernels/group_offsets.cuh"

namespace mtl::cuda {
namespace {

constexpr int kTile = 64;             // rows and columns of an output tile
constexpr int kTileThreads = 128;     // four warps, of 32 rows and columns each
constexpr int kBlocksOfProcessor = 4;

// An operand of one group: `lanes` rows (or columns) with `inner` elements each; one of the strides is 1.
template <typename T>
struct Operand {
  const T* data;
  int64_t lane_stride, inner_stride, lanes, inner;
  bool is_packed;  // read 16 bytes at a time, along the dimension of stride 1
};

// The number of steps of the inner dimension that are in shared memory; below, the length of a lane there,
// padded so that rows of 16-bit elements begin in different banks.
template <typename T>
constexpr int kSteps = sizeof(T) == 2 ? 32 : 16;
template <typename T>
constexpr int kLaneLength = kSteps<T> + (sizeof(T) == 2 ? 8 : 1);

__device__ __forceinline__ void copy(float* to, float from) { *to = from; }
__device__ __forceinline__ void copy(bf16* to, bf16 from) { *to = from; }
__device__ __forceinline__ void copy(fp16* to, fp16 from) { *to = from; }

// Loads some lanes and steps of an operand, and zeros beyond its end.
template <typename T>
__device__ __forceinline__ void load_tile(T (&to)[kTile][kLaneLength<T>], const Operand<T>& from, int64_t lane, int64_t step) {
  constexpr int N = kPack<T>, kAccesses = kTile * kSteps<T> / N;
  const bool is_along_steps = from.inner_stride == 1;
  if (from.is_packed) {
    for (int access = static_cast<int>(threadIdx.x); access < kAccesses; access += kTileThreads) {
      const int at_lane = is_along_steps ? access / (kSteps<T> / N) : access % (kTile / N) * N,
                at_step = is_along_steps ? access % (kSteps<T> / N) * N : access / (kTile / N);
      T values[N] = {};
      if (lane + at_lane < from.lanes && step + at_step < from.inner) {
        const T* const first = from.data + (lane + at_lane) * from.lane_stride + (step + at_step) * from.inner_stride;
        const Words words = in_one_access<Words>(first);
        memcpy(static_cast<void*>(values), &words, sizeof words);
      }
#pragma unroll
      for (int i = 0; i < N; ++i) copy(is_along_steps ? &to[at_lane][at_step + i] : &to[at_lane + i][at_step], values[i]);
    }
    return;
  }
  for (int index = static_cast<int>(threadIdx.x); index < kTile * kSteps<T>; index += kTileThreads) {
    const int at_lane = is_along_steps ? index / kSteps<T> : index % kTile,
              at_step = is_along_steps ? index % kSteps<T> : index / kTile;
    T value = {};
    if (lane + at_lane < from.lanes && step + at_step < from.inner) {
      value = from.data[(lane + at_lane) * from.lane_stride + (step + at_step) * from.inner_stride];
    }
    copy(&to[at_lane][at_step], value);
  }
}

// The sums of a thread. Calls write(row, column, sum) for each sum, with the row and column within the tile.
template <typename T>
struct TileSums {
  float sums[2][4][4] = {};  // blocks of 16 rows and 8 columns

  __device__ __forceinline__ static int first_row() { return static_cast<int>(threadIdx.x) / 64 * 32; }
  __device__ __forceinline__ static int first_column() { return static_cast<int>(threadIdx.x) / 32 % 2 * 32; }

  __device__ __forceinline__ void add(const T (&left)[kTile][kLaneLength<T>], const T (&right)[kTile][kLaneLength<T>]) {
    const int lane = static_cast<int>(threadIdx.x) % 32, row = first_row() + lane / 4, column = first_column() + lane / 4,
              pair = lane % 4 * 2;
#pragma unroll
    for (int step = 0; step < kSteps<T>; step += 16) {
      uint32_t a[2][4], b[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        a[i][0] = in_one_access<uint32_t>(&left[row + 16 * i][step + pair]);
        a[i][1] = in_one_access<uint32_t>(&left[row + 16 * i + 8][step + pair]);
        a[i][2] = in_one_access<uint32_t>(&left[row + 16 * i][step + pair + 8]);
        a[i][3] = in_one_access<uint32_t>(&left[row + 16 * i + 8][step + pair + 8]);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        b[j][0] = in_one_access<uint32_t>(&right[column + 8 * j][step + pair]);
        b[j][1] = in_one_access<uint32_t>(&right[column + 8 * j][step + pair + 8]);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) mma(sums[i][j], a[i], b[j], T{});
      }
    }
  }

  template <typename Write>
  __device__ __forceinline__ void for_each(const Write& write) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, row = first_row() + lane / 4, column = first_column() + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) write(row + 16 * i + k / 2 * 8, column + 8 * j + k % 2, sums[i][j][k]);
      }
    }
  }
};

template <>
struct TileSums<float> {
  float sums[8][4] = {};

  __device__ __forceinline__ static int first_row() { return static_cast<int>(threadIdx.x) / 16 * 8; }
  __device__ __forceinline__ static int first_column() { return static_cast<int>(threadIdx.x) % 16; }

  __device__ __forceinline__ void add(const float (&left)[kTile][kLaneLength<float>],
                                      const float (&right)[kTile][kLaneLength<float>]) {
#pragma unroll 4
    for (int step = 0; step < kSteps<float>; ++step) {
      float of_columns[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) of_columns[j] = right[first_column() + 16 * j][step];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float of_row = left[first_row() + i][step];
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(of_row, of_columns[j], sums[i][j]);
      }
    }
  }

  template <typename Write>
  __device__ __forceinline__ void for_each(const Write& write) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) write(first_row() + i, first_column() + 16 * j, sums[i][j]);
    }
  }
};

// The operands and sizes of the matmuls of all groups.
template <typename T>
struct GroupedProducts {
  void* output;
  const T *left, *right;
  GroupOffsets groups;
  int64_t outputs, inputs;  // N and K
  bool transpose_weights, accumulate, is_left_packed, is_right_packed;
};

// Computes output[r, n] = sum over K of input[r] op(weights[g]): rows of the tile are rows of a group,
// columns are outputs.
template <typename T>
struct MatmulShape {
  using Output = T;

  __device__ __forceinline__ static int64_t rows(const GroupedProducts<T>& p, int64_t group) {
    return p.groups.end(group) - p.groups.begin(group);
  }
  __device__ __forceinline__ static int64_t columns(const GroupedProducts<T>& p) { return p.outputs; }
  __device__ __forceinline__ static Operand<T> left(const GroupedProducts<T>& p, int64_t group) {
    return {p.left + p.groups.begin(group) * p.inputs, p.inputs, 1, rows(p, group), p.inputs, p.is_left_packed};
  }
  __device__ __forceinline__ static Operand<T> right(const GroupedProducts<T>& p, int64_t group) {
    const T* const weights = p.right + group * p.outputs * p.inputs;
    if (p.transpose_weights) return {weights, p.inputs, 1, p.outputs, p.inputs, p.is_right_packed};
    return {weights, 1, p.outputs, p.outputs, p.inputs, p.is_right_packed};
  }
  __device__ __forceinline__ static void write(const GroupedProducts<T>& p, int64_t group, int64_t row, int64_t column, float sum) {
    set(static_cast<T*>(p.output) + (p.groups.begin(group) + row) * p.outputs + column, sum);
  }
};

// Computes gradient[g, n, k] = sum over the rows r of the group of outputGradient[r, n] input[r, k].
template <typename T>
struct GradientShape {
  using Output = float;

  // Returns the number of rows to compute: 0, so that there are no tiles, for a group without rows that keeps
  // its old values.
  __device__ __forceinline__ static int64_t rows(const GroupedProducts<T>& p, int64_t group) {
    return p.accumulate && p.groups.end(group) == p.groups.begin(group) ? 0 : p.outputs;
  }
  __device__ __forceinline__ static int64_t columns(const GroupedProducts<T>& p) { return p.inputs; }
  __device__ __forceinline__ static Operand<T> left(const GroupedProducts<T>& p, int64_t group) {
    const int64_t first = p.groups.begin(group);
    return {p.left + first * p.outputs, 1, p.outputs, p.outputs, p.groups.end(group) - first, p.is_left_packed};
  }
  __device__ __forceinline__ static Operand<T> right(const GroupedProducts<T>& p, int64_t group) {
    const int64_t first = p.groups.begin(group);
    return {p.right + first * p.inputs, 1, p.inputs, p.inputs, p.groups.end(group) - first, p.is_right_packed};
  }
  __device__ __forceinline__ static void write(const GroupedProducts<T>& p, int64_t group, int64_t row, int64_t column, float sum) {
    float* const to = static_cast<float*>(p.output) + (group * p.outputs + row) * p.inputs + column;
    *to = p.accumulate ? *to + sum : sum;
  }
};

template <typename Shape, typename T>
__global__ void __launch_bounds__(kTileThreads) multiply_kernel(GroupedProducts<T> p) {
  MTL_SHARED(T, left, [kTile][kLaneLength<T>]);
  MTL_SHARED(T, right, [kTile][kLaneLength<T>]);
  p.groups.check();
  const int64_t columns = Shape::columns(p), column_tiles = (columns + kTile - 1) / kTile;
  int64_t group = 0, first_tile = 0;  // first_tile: the group's first
  for (int64_t tile = blockIdx.x;; tile += gridDim.x) {
    for (; group < p.groups.groups; ++group) {
      const int64_t tiles = (Shape::rows(p, group) + kTile - 1) / kTile * column_tiles;
      if (tile < first_tile + tiles) break;
      first_tile += tiles;
    }
    if (group == p.groups.groups) return;
    const int64_t row = (tile - first_tile) / column_tiles * kTile, column = (tile - first_tile) % column_tiles * kTile;
    const Operand<T> of_rows = Shape::left(p, group), of_columns = Shape::right(p, group);
    TileSums<T> sums;
    for (int64_t step = 0; step < of_rows.inner; step += kSteps<T>) {
      load_tile<T>(left, of_rows, row, step);
      load_tile<T>(right, of_columns, column, step);
      __syncthreads();
      sums.add(left, right);
      __syncthreads();
    }
    sums.for_each([&](int at_row, int at_column, float sum) {
      if (row + at_row < of_rows.lanes && column + at_column < of_columns.lanes) {
        Shape::write(p, group, row + at_row, column + at_column, sum);
      }
    });
  }
}

// Writes zeros to the rows after the last group.
template <typename T>
__global__ void clear_kernel(T* output, int64_t columns, GroupOffsets groups) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at < groups.rows * columns && at >= groups.used() * columns) set(output + at, 0.0f);
}

// Returns a launch with the number of blocks that can run at the same time, limited by the number of possible
// tiles.
Launch launch_of(int64_t tiles) {
  return grid_of(std::min<int64_t>(tiles, kBlocksOfProcessor * int64_t{gpu_properties().num_multiprocessors}), kTileThreads);
}

Status grouped_matmul(const OpCall& call) {
  using Op = GroupedMatmul;
  return for_floating(call, call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const GroupedSizes sizes = grouped_matmul_sizes(call);
    const bool transposed = call.flag(Op::kTransposeWeights);
    const T *const input = call.data<T>(Op::kInput), *const weights = call.data<T>(Op::kWeights);
    const GroupedProducts<T> p = {call.tensor(Op::kOutput).data,
                                  input,
                                  weights,
                                  group_offsets(call, Op::kOffsets, sizes.rows),
                                  sizes.outputs,
                                  sizes.inputs,
                                  transposed,
                                  false,
                                  is_packed<T>(sizes.inputs, {input}),
                                  is_packed<T>(transposed ? sizes.inputs : sizes.outputs, {weights})};
    const int64_t tiles = (ceiling(sizes.rows, kTile) + sizes.groups) * ceiling(sizes.outputs, kTile);
    MTL_RUN_KERNEL(call, (multiply_kernel<MatmulShape<T>, T>), launch_of(tiles), p);
    MTL_RUN_KERNEL(call, clear_kernel<T>, grid_of(ceiling(sizes.rows * sizes.outputs, kThreads), kThreads),
                   call.data<T>(Op::kOutput), sizes.outputs, p.groups);
    return ok_status();
  });
}

Status grouped_weight_gradient(const OpCall& call) {
  using Op = GroupedWeightGradient;
  return for_floating(call, call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const GroupedSizes sizes = grouped_weight_gradient_sizes(call);
    const T *const output_gradient = call.data<T>(Op::kOutputGradient), *const input = call.data<T>(Op::kInput);
    const GroupedProducts<T> p = {call.tensor(Op::kWeightGradient).data,
                                  output_gradient,
                                  input,
                                  group_offsets(call, Op::kOffsets, sizes.rows),
                                  sizes.outputs,
                                  sizes.inputs,
                                  false,
                                  call.flag(Op::kAccumulate),
                                  is_packed<T>(sizes.outputs, {output_gradient}),
                                  is_packed<T>(sizes.inputs, {input})};
    const int64_t tiles = sizes.groups * ceiling(sizes.outputs, kTile) * ceiling(sizes.inputs, kTile);
    MTL_RUN_KERNEL(call, (multiply_kernel<GradientShape<T>, T>), launch_of(tiles), p);
    return ok_status();
  });
}

MTL_REGISTER_CUDA("grouped_matmul", grouped_matmul);
MTL_REGISTER_CUDA("grouped_weight_gradient", grouped_weight_gradient);

}  // namespace
}  // namespace mtl::cuda

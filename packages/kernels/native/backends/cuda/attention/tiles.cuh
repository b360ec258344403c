// Tiles of 16-bit matrices in shared memory and in the registers of tensor cores: loading, matmuls, storing.
//
// A tile's rows are padded by 16 bytes, so that the distance of rows is an odd number of 16-byte units for
// every width that is a multiple of 16. The eight rows that an 8 x 8 matrix load reads at once, and the
// 16-byte units that a quarter of a warp writes, are then in different banks without a swizzle.
#pragma once

#include "backends/cuda/instructions/ptx.h"
#include "backends/cuda/numbers.cuh"

namespace mtl::cuda {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kTile = 64;  // number of queries or keys
constexpr int kMaxSharedBytes = 163 << 10;  // limit per block on an A100, the smallest among the supported GPUs

template <int kWidth>
struct TileShape {
  static constexpr int kStride = kWidth + 8;
  static constexpr int elements(int rows) { return rows * kStride; }
};

// Copies rows first_row .. first_row + kRows of a matrix in global memory asynchronously. Called by all
// threads of the block. Writes zeros beyond the last row and beyond `width` columns, a multiple of 8.
template <typename T, int kWidth, int kRows>
MTL_PTX void load_tile(T* tile, const T* matrix, int64_t stride, int first_row, int num_rows, int width) {
  constexpr int kChunks = kWidth / 8;
#pragma unroll 1
  for (int chunk = static_cast<int>(threadIdx.x); chunk < kRows * kChunks; chunk += kThreads) {
    const int row = chunk / kChunks, column = chunk % kChunks * 8;
    const bool valid = first_row + row < num_rows && column < width;
    const T* from = matrix + (valid ? (first_row + row) * stride + column : 0);
    copy_async_16(tile + row * TileShape<kWidth>::kStride + column, from, valid);
  }
}

// Adds a b^T to the sums. a: 16 rows of a tile from `row_tile` on; b: kColumns rows of another tile; both
// have kWidth columns.
template <typename T, int kWidth, int kColumns>
MTL_PTX void multiply_transposed(float (&sums)[kColumns / 8][4], const T* row_tile, const T* column_tile) {
  constexpr int kStride = TileShape<kWidth>::kStride;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const T* a_row = row_tile + lane % 16 * kStride + lane / 16 * 8;
  const T* b_row = column_tile + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < kWidth; k += 16) {
    uint32_t a[4];
    load_matrices(a, a_row + k);
#pragma unroll
    for (int n = 0; n < kColumns; n += 16) {
      uint32_t b[4];
      load_matrices(b, b_row + n * kStride + k);
      mma(sums[n / 8], a, {b[0], b[1]}, T{});
      mma(sums[n / 8 + 1], a, {b[2], b[3]}, T{});
    }
  }
}

// Makes the 16 x 16 left operand of the next matmul from two neighbouring 16 x 8 accumulators, whose register
// layout is the same.
template <typename T>
MTL_PTX void operand_of(uint32_t (&a)[4], const float (&left)[4], const float (&right)[4]) {
  a[0] = Numbers<T>::pack(left[0], left[1]);
  a[1] = Numbers<T>::pack(left[2], left[3]);
  a[2] = Numbers<T>::pack(right[0], right[1]);
  a[3] = Numbers<T>::pack(right[2], right[3]);
}

// Adds a b to the sums. a: 16 x kDepth accumulators of a matmul, rounded; b: kDepth rows of a tile.
template <typename T, int kWidth, int kDepth>
MTL_PTX void multiply_registers(float (&sums)[kWidth / 8][4], const float (&a)[kDepth / 8][4], const T* tile) {
  constexpr int kStride = TileShape<kWidth>::kStride;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const T* b_row = tile + lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) {
    uint32_t packed[4];
    operand_of<T>(packed, a[k / 8], a[k / 8 + 1]);
#pragma unroll
    for (int n = 0; n < kWidth; n += 16) {
      uint32_t b[4];
      load_matrices_transposed(b, b_row + k * kStride + n);
      mma(sums[n / 8], packed, {b[0], b[1]}, T{});
      mma(sums[n / 8 + 1], packed, {b[2], b[3]}, T{});
    }
  }
}

// Writes 16 rows of accumulators to global memory, 16 bytes per store, through 16 rows of shared memory
// (`scratch`) that only this warp uses. factors: multiply the thread's two rows.
template <typename T, int kWidth>
MTL_PTX void store_rows(T* matrix, int64_t stride, int num_rows, int width, const float (&sums)[kWidth / 8][4],
                        const float (&factors)[2], T* scratch) {
  constexpr int kStride = TileShape<kWidth>::kStride, kChunks = kWidth / 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();  // the scratch rows have been read
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      in_one_access<uint32_t>(scratch + (lane / 4 + 8 * half) * kStride + 8 * n + lane % 4 * 2) =
          Numbers<T>::pack(sums[n][2 * half] * factors[half], sums[n][2 * half + 1] * factors[half]);
    }
  }
  __syncwarp();
#pragma unroll 1
  for (int chunk = lane; chunk < 16 * kChunks; chunk += 32) {
    const int row = chunk / kChunks, column = chunk % kChunks * 8;
    if (row >= num_rows || column >= width) continue;
    in_one_access<uint4>(matrix + row * stride + column) = in_one_access<uint4>(scratch + row * kStride + column);
  }
}

}  // namespace mtl::cuda

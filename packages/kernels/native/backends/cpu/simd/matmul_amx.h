// Matmuls of bfloat16 with AMX: four tiles of sums, of 32 rows and 32 columns.
#pragma once

#include "backends/cpu/simd/amx.h"
#include "backends/cpu/simd/matmul_packing.h"
#include "backends/cpu/simd/matmul_tile.h"

#ifdef MTL_HAS_AMX_KERNELS
namespace mtl {
namespace {

// Computes a part of an output tile, of at most two tiles of AMX by two. AMX tiles 0 to 3 hold sums, 4 and 5
// rows of the left operand, 6 and 7 columns of the right one. An AMX tile holds 16 steps of 16 lanes.
template <int kRowTiles, int kColumnTiles, bool kInMatrix>
MTL_INLINE void multiply_amx_tiles(const TileProduct& p, const VUint* right, float* sums) {
  const int64_t stride = p.row_length * static_cast<int64_t>(sizeof(float));
  float* const second_row = sums + kAmxRows * p.row_length;
  if (p.add) {
    load_tile<0>(sums, stride);
    if constexpr (kColumnTiles == 2) load_tile<1>(sums + kLanes, stride);
    if constexpr (kRowTiles == 2) load_tile<2>(second_row, stride);
    if constexpr (kRowTiles == 2 && kColumnTiles == 2) load_tile<3>(second_row + kLanes, stride);
  } else {
    zero_tile<0>();
    if constexpr (kColumnTiles == 2) zero_tile<1>();
    if constexpr (kRowTiles == 2) zero_tile<2>();
    if constexpr (kRowTiles == 2 && kColumnTiles == 2) zero_tile<3>();
  }
  // of the left operand, in lanes and bytes: from 16 rows or steps to the next 16, and from one row to the
  // next
  const int64_t rows_further = kInMatrix ? kAmxRows * p.left_row_length : p.left_panel_length * kLanes,
                steps_further = kInMatrix ? kAmxRows : kAmxRows * kLanes,
                row_bytes = kInMatrix ? p.left_row_length * static_cast<int64_t>(sizeof(Lane)) : kAmxBytes;
  const Lane* left = p.left;
  for (int64_t step = 0; step < p.steps; step += kAmxRows) {
    load_tile<4>(left, row_bytes);
    load_tile<6>(right, kAmxBytes);
    add_bfloat16_products<0, 4, 6>();
    if constexpr (kColumnTiles == 2) {
      load_tile<7>(right + p.right_panel_length, kAmxBytes);
      add_bfloat16_products<1, 4, 7>();
    }
    if constexpr (kRowTiles == 2) {
      load_tile<5>(left + rows_further, row_bytes);
      add_bfloat16_products<2, 5, 6>();
      if constexpr (kColumnTiles == 2) add_bfloat16_products<3, 5, 7>();
    }
    left += steps_further;
    right += kAmxRows;
  }
  store_tile<0>(sums, stride);
  if constexpr (kColumnTiles == 2) store_tile<1>(sums + kLanes, stride);
  if constexpr (kRowTiles == 2) store_tile<2>(second_row, stride);
  if constexpr (kRowTiles == 2 && kColumnTiles == 2) store_tile<3>(second_row + kLanes, stride);
}

// Computes an output tile of kVectors panels of columns, two at a time.
template <int kRowTiles, int kVectors, bool kInMatrix>
void multiply_amx_tile(const TileProduct& product) {
  const TileProduct p = product;
#pragma GCC unroll 1
  for (int vector = 0; vector + 1 < kVectors; vector += 2) {
    multiply_amx_tiles<kRowTiles, 2, kInMatrix>(p, p.right + vector * p.right_panel_length, p.sums + vector * kLanes);
  }
  if constexpr (kVectors % 2 == 1) {
    constexpr int kLast = kVectors - 1;
    multiply_amx_tiles<kRowTiles, 1, kInMatrix>(p, p.right + kLast * p.right_panel_length, p.sums + kLast * kLanes);
  }
}

struct AmxPairs : BFloat16Pairs {
  static constexpr int kTileRows = 2 * kAmxRows;
  // Rows of the output are written 256 bytes at a time: neighbouring lines of a page (measured on Sapphire
  // Rapids: 64 bytes at a time take 1.2 to 1.4 times as long for inner dimensions of 768 and 384).
  static constexpr int kTileVectors = 8;
  // The right operand is read from the L3 cache for each block of rows, and tiles multiply faster than it
  // comes (measured on Sapphire Rapids: 128 rows take 1.02 to 1.15 times as long).
  static constexpr int kRowsOfBlock = 256;
  static constexpr int kStepMultiple = kAmxRows;
  static constexpr bool kLeftByRow = true;
  static_assert(kLanes == kAmxRows, "a panel is as wide as a tile");

  MTL_INLINE void begin() { begin_amx(); }
  MTL_INLINE void end() { end_amx(); }

  MTL_INLINE TileKernel kernel(int64_t rows, int vectors, bool in_matrix) {
    if (rows > kAmxRows) return {kTileRows, in_matrix ? of_vectors<2, true>(vectors) : of_vectors<2, false>(vectors)};
    return {kAmxRows, in_matrix ? of_vectors<1, true>(vectors) : of_vectors<1, false>(vectors)};
  }

 private:
  template <int kRowTiles, bool kInMatrix, int kVectors = kTileVectors>
  MTL_INLINE MultiplyTile of_vectors(int vectors) {
    if constexpr (kVectors > 1) {
      if (vectors < kVectors) return of_vectors<kRowTiles, kInMatrix, kVectors - 1>(vectors);
    }
    return multiply_amx_tile<kRowTiles, kVectors, kInMatrix>;
  }
};

}  // namespace
}  // namespace mtl
#endif

// Matmuls of bfloat16 with AMX: four tiles of sums, of 32 rows and 32 columns.
#pragma once

#include "backends/cpu/simd/amx.h"
#include "backends/cpu/simd/matmul_packing.h"
#include "backends/cpu/simd/matmul_tile.h"

#ifdef MTL_HAS_AMX_KERNELS
namespace mtl {
namespace {

// Computes the matmul of one output tile. AMX tiles 0 to 3 hold sums, 4 and 5 rows of the left operand, 6 and
// 7 columns of the right one. An AMX tile holds 16 steps of a panel's 16 lanes.
template <int kRowTiles, int kColumnTiles>
void multiply_amx_tiles(const TileProduct& p) {
  const int64_t stride = p.row_length * static_cast<int64_t>(sizeof(float));
  float *const first_row = p.sums, *const second_row = p.sums + kAmxRows * p.row_length;
  if (p.add) {
    load_tile<0>(first_row, stride);
    if constexpr (kColumnTiles == 2) load_tile<1>(first_row + kLanes, stride);
    if constexpr (kRowTiles == 2) load_tile<2>(second_row, stride);
    if constexpr (kRowTiles == 2 && kColumnTiles == 2) load_tile<3>(second_row + kLanes, stride);
  } else {
    zero_tile<0>();
    if constexpr (kColumnTiles == 2) zero_tile<1>();
    if constexpr (kRowTiles == 2) zero_tile<2>();
    if constexpr (kRowTiles == 2 && kColumnTiles == 2) zero_tile<3>();
  }
  const Lane* left = p.left;
  const VUint* right = p.right;
  for (int64_t step = 0; step < p.steps; step += kAmxRows) {
    load_tile<4>(left, kAmxBytes);
    load_tile<6>(right, kAmxBytes);
    add_bfloat16_products<0, 4, 6>();
    if constexpr (kColumnTiles == 2) {
      load_tile<7>(right + p.right_panel_length, kAmxBytes);
      add_bfloat16_products<1, 4, 7>();
    }
    if constexpr (kRowTiles == 2) {
      load_tile<5>(left + p.left_panel_length * kLanes, kAmxBytes);
      add_bfloat16_products<2, 5, 6>();
      if constexpr (kColumnTiles == 2) add_bfloat16_products<3, 5, 7>();
    }
    left += kAmxRows * kLanes;
    right += kAmxRows;
  }
  store_tile<0>(first_row, stride);
  if constexpr (kColumnTiles == 2) store_tile<1>(first_row + kLanes, stride);
  if constexpr (kRowTiles == 2) store_tile<2>(second_row, stride);
  if constexpr (kRowTiles == 2 && kColumnTiles == 2) store_tile<3>(second_row + kLanes, stride);
}

struct AmxPairs : BFloat16Pairs {
  static constexpr int kTileRows = 2 * kAmxRows;
  static constexpr int kTileVectors = 2;
  static constexpr int kStepMultiple = kAmxRows;
  static constexpr bool kLeftByRow = true;
  static_assert(kLanes == kAmxRows, "a panel is as wide as a tile");

  MTL_INLINE void begin() { begin_amx(); }
  MTL_INLINE void end() { end_amx(); }

  MTL_INLINE TileKernel kernel(int64_t rows, int vectors, bool) {
    if (rows > kAmxRows) return {kTileRows, vectors == 1 ? multiply_amx_tiles<2, 1> : multiply_amx_tiles<2, 2>};
    return {kAmxRows, vectors == 1 ? multiply_amx_tiles<1, 1> : multiply_amx_tiles<1, 2>};
  }
};

}  // namespace
}  // namespace mtl
#endif

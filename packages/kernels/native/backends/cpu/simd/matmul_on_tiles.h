// Matmuls of bfloat16 operands on the processor's tiles: 2 x 2 tiles of sums at a time.
#pragma once

#include "backends/cpu/simd/matmul_packing.h"
#include "backends/cpu/simd/matmul_tile.h"

namespace mtl {
namespace {

constexpr int64_t kLineBytes = 64;  // of a cache

// Computes a part of an output tile. The part has at most two by two tiles of the processor. `Tiles` is the
// type of the instruction set's tiles. Such a tile contains Tiles::kRows steps of Tiles::kRows lanes. `ahead`
// is the memory that is prefetched meanwhile, `ahead_bytes` with each tile of steps; it is advanced.
template <typename Tiles, int kRowTiles, int kColumnTiles, bool kInMatrix>
MTL_INLINE void multiply_tiles(const TileProduct& p, const VUint* right, float* sums, const char*& ahead,
                               int64_t ahead_bytes) {
  constexpr bool kRight = kColumnTiles == 2, kLower = kRowTiles == 2;
  const int64_t stride = p.row_length * static_cast<int64_t>(sizeof(float));
  float* const lower_sums = sums + Tiles::kRows * p.row_length;
  if (p.add) {
    Tiles::load(kUpperLeftSums, sums, stride);
    if constexpr (kRight) Tiles::load(kUpperRightSums, sums + kLanes, stride);
    if constexpr (kLower) Tiles::load(kLowerLeftSums, lower_sums, stride);
    if constexpr (kLower && kRight) Tiles::load(kLowerRightSums, lower_sums + kLanes, stride);
  } else {
    Tiles::zero(kUpperLeftSums);
    if constexpr (kRight) Tiles::zero(kUpperRightSums);
    if constexpr (kLower) Tiles::zero(kLowerLeftSums);
    if constexpr (kLower && kRight) Tiles::zero(kLowerRightSums);
  }
  // distances in the left operand: from one tile of rows to the next, from one tile of steps to the next, and
  // from one row to the next
  const int64_t rows_further = kInMatrix ? Tiles::kRows * p.left_row_length : p.left_panel_length * kLanes,
                steps_further = kInMatrix ? Tiles::kRows : Tiles::kRows * kLanes,
                row_bytes = kInMatrix ? p.left_row_length * static_cast<int64_t>(sizeof(Lane)) : Tiles::kRowBytes;
  const Lane* left = p.left;
  for (int64_t step = 0; step < p.steps; step += Tiles::kRows) {
    Tiles::load(kUpperRows, left, row_bytes);
    Tiles::load(kLeftColumns, right, Tiles::kRowBytes);
    Tiles::add_products(kUpperLeftSums, kUpperRows, kLeftColumns);
    if constexpr (kRight) {
      Tiles::load(kRightColumns, right + p.right_panel_length, Tiles::kRowBytes);
      Tiles::add_products(kUpperRightSums, kUpperRows, kRightColumns);
    }
    if constexpr (kLower) {
      Tiles::load(kLowerRows, left + rows_further, row_bytes);
      Tiles::add_products(kLowerLeftSums, kLowerRows, kLeftColumns);
      if constexpr (kRight) Tiles::add_products(kLowerRightSums, kLowerRows, kRightColumns);
    }
    for (const char* const end = ahead + ahead_bytes; ahead < end; ahead += kLineBytes) prefetch_ahead(ahead);
    left += steps_further;
    right += Tiles::kRows;
  }
  Tiles::store(kUpperLeftSums, sums, stride);
  if constexpr (kRight) Tiles::store(kUpperRightSums, sums + kLanes, stride);
  if constexpr (kLower) Tiles::store(kLowerLeftSums, lower_sums, stride);
  if constexpr (kLower && kRight) Tiles::store(kLowerRightSums, lower_sums + kLanes, stride);
}

// Computes an output tile of kVectors panels of columns, two panels at a time.
template <typename Tiles, int kRowTiles, int kVectors, bool kInMatrix>
void multiply_on_tiles(const TileProduct& product) {
  const TileProduct p = product;
  constexpr int kPairs = (kVectors + 1) / 2;
  const char* ahead = p.ahead.data;
  const int64_t ahead_bytes = round_up(p.ahead.bytes_of_step * Tiles::kRows / kPairs, kLineBytes);
#pragma GCC unroll 1
  for (int vector = 0; vector + 1 < kVectors; vector += 2) {
    multiply_tiles<Tiles, kRowTiles, 2, kInMatrix>(p, p.right + vector * p.right_panel_length, p.sums + vector * kLanes,
                                                   ahead, ahead_bytes);
  }
  if constexpr (kVectors % 2 == 1) {
    constexpr int kLast = kVectors - 1;
    multiply_tiles<Tiles, kRowTiles, 1, kInMatrix>(p, p.right + kLast * p.right_panel_length, p.sums + kLast * kLanes,
                                                   ahead, ahead_bytes);
  }
}

template <typename Tiles>
struct PairsOnTiles : BFloat16Pairs {
  static constexpr int kTileRows = 2 * Tiles::kRows;
  // The number of vectors in a tile. With this value, each row of a tile is 256 bytes long, so that
  // neighbouring lines of a page are written together (measured on Sapphire Rapids: 64 bytes at a time take
  // 1.2 to 1.4 times as long for inner dimensions of 768 and 384).
  static constexpr int kTileVectors = 8;
  // The number of rows in a block. For each block of rows, the right operand is read from the L3 cache, which
  // takes longer than the multiplications on tiles, so blocks have many rows (measured on Sapphire Rapids:
  // blocks of 128 rows take 1.02 to 1.15 times as long).
  static constexpr int kRowsOfBlock = 256;
  static constexpr int kStepMultiple = Tiles::kRows;
  static constexpr bool kLeftByRow = true;
  static constexpr bool kPrefetchesColumns = true, kPrefetchesOutput = false;
  static_assert(kLanes == Tiles::kRows, "a panel is as wide as a tile");

  MTL_INLINE void begin() { Tiles::begin(); }
  MTL_INLINE void end() { Tiles::end(); }

  MTL_INLINE TileKernel kernel(int64_t rows, int vectors, bool in_matrix) {
    if (rows > Tiles::kRows) return {kTileRows, in_matrix ? of_vectors<2, true>(vectors) : of_vectors<2, false>(vectors)};
    return {Tiles::kRows, in_matrix ? of_vectors<1, true>(vectors) : of_vectors<1, false>(vectors)};
  }

 private:
  template <int kRowTiles, bool kInMatrix, int kVectors = kTileVectors>
  MTL_INLINE MultiplyTile of_vectors(int vectors) {
    if constexpr (kVectors > 1) {
      if (vectors < kVectors) return of_vectors<kRowTiles, kInMatrix, kVectors - 1>(vectors);
    }
    return multiply_on_tiles<Tiles, kRowTiles, kVectors, kInMatrix>;
  }
};

}  // namespace
}  // namespace mtl

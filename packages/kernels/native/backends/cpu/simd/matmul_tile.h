// The innermost part of a matmul: sums of products of one tile of the output, which stay in registers.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

// 32 bits of an operand, packed or in the stored matrix.
typedef uint32_t Lane __attribute__((aligned(2), may_alias));

// One tile of a matmul, over some steps of the inner dimension. Panels are described in matmul_packing.h.
struct TileProduct {
  const Lane* left;    // the tile's first row at the first step, in its panel or in the matrix
  const VUint* right;  // the tile's first panel, at the first step
  int64_t rows;        // rows of the left operand that exist
  int64_t left_row_length;                        // of the matrix, in steps; 0 if `left` is packed
  int64_t left_panel_length, right_panel_length;  // from one panel to the next, in vectors
  int64_t steps;
  float* sums;  // written; rows begin `row_length` elements apart
  int64_t row_length;
  bool add;  // add to the old values of `sums`
};

using MultiplyTile = void (*)(const TileProduct&);

struct TileKernel {
  int rows;  // rows that the kernel computes, at least the requested number
  MultiplyTile multiply;
};

// Adds products of numbers or, in bfloat16, products of pairs of neighbours along the inner dimension.
// Products of bfloat16 are exact, and results below 2^-126 become zeros.
struct FloatProducts {
  MTL_INLINE VFloat add(VFloat sums, VUint left, VUint right) {
    return sums + bits_to_float(left) * bits_to_float(right);
  }
};
#if MTL_ISA_LEVEL == 2
struct BFloat16PairProducts {
  MTL_INLINE VFloat add(VFloat sums, VUint left, VUint right) {
    return (VFloat)_mm512_dpbf16_ps((__m512)sums, (__m512bh)left, (__m512bh)right);
  }
};
#endif

// Computes one tile. kInMatrix: the left operand is not packed.
template <typename Products, int kRows, int kVectors, bool kInMatrix>
void multiply_tile(const TileProduct& product) {
  const TileProduct p = product;  // a copy in registers: writes to memory cannot change it
  const Lane* rows[kRows];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
    rows[row] = kInMatrix ? p.left + smaller(row, p.rows - 1) * p.left_row_length : p.left + row;
  }
  VFloat tile[kRows][kVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 3
    for (int vector = 0; vector < kVectors; ++vector) {
      tile[row][vector] = p.add ? load(p.sums + row * p.row_length + vector * kLanes) : VFloat{};
    }
  }
  for (int64_t step = 0; step < p.steps; ++step) {
    VUint of_step[kVectors];
#pragma GCC unroll 3
    for (int vector = 0; vector < kVectors; ++vector) of_step[vector] = p.right[vector * p.right_panel_length + step];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const VUint of_row = (kInMatrix ? rows[row][step] : p.left[step * kLanes + row]) - VUint{};
#pragma GCC unroll 3
      for (int vector = 0; vector < kVectors; ++vector) {
        tile[row][vector] = Products::add(tile[row][vector], of_row, of_step[vector]);
      }
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 3
    for (int vector = 0; vector < kVectors; ++vector) {
      store(p.sums + row * p.row_length + vector * kLanes, tile[row][vector]);
    }
  }
}

// A tile with 24 sums, 3 vectors of the right operand and one element of the left one fits the 32 registers
// of AVX-512; a tile with 12 sums and the same operands fits the 16 of AVX2 and SSE. Either way one load of
// the left operand serves three multiplications.
template <typename Products>
struct VectorTiles {
  static constexpr int kTileRows = MTL_ISA_LEVEL == 2 ? 8 : 4;
  static constexpr int kTileVectors = 3;
  static constexpr int kRowsOfBlock = 128;  // 384 KiB of the left operand: a share of the L2 cache
  static constexpr int kStepMultiple = 1;   // of a panel's steps
  static constexpr bool kLeftByRow = false;
  static_assert(kLanes % kTileRows == 0, "a tile reads rows of one panel");

  // A thread calls these before and after it multiplies tiles.
  MTL_INLINE void begin() {}
  MTL_INLINE void end() {}

  // Returns the kernel with the fewest rows, but at least `rows`. Kernels have 1, 2 or 4 rows, and 8 on
  // AVX-512.
  MTL_INLINE TileKernel kernel(int64_t rows, int vectors, bool in_matrix) {
#if MTL_ISA_LEVEL == 2
    if (rows > 4) return in_matrix ? of_rows<8, true>(vectors) : of_rows<8, false>(vectors);
#endif
    if (rows > 2) return in_matrix ? of_rows<4, true>(vectors) : of_rows<4, false>(vectors);
    if (rows > 1) return in_matrix ? of_rows<2, true>(vectors) : of_rows<2, false>(vectors);
    return in_matrix ? of_rows<1, true>(vectors) : of_rows<1, false>(vectors);
  }

 private:
  template <int kRows, bool kInMatrix>
  MTL_INLINE TileKernel of_rows(int vectors) {
    if (vectors == 1) return {kRows, multiply_tile<Products, kRows, 1, kInMatrix>};
    if (vectors == 2) return {kRows, multiply_tile<Products, kRows, 2, kInMatrix>};
    return {kRows, multiply_tile<Products, kRows, 3, kInMatrix>};
  }
};

}  // namespace
}  // namespace mtl

// The innermost part of a matmul: the sums for one output tile, which stay in registers.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

// 32 bits of an operand, either packed or in the stored matrix.
typedef uint32_t Lane __attribute__((aligned(2), may_alias));

// Memory that is read soon after a tile. Each step of the tile prefetches the next bytes of this memory. The
// last bytes may lie beyond the packed operand.
struct Ahead {
  const char* data;       // not null: an address without a page is looked up again with each prefetch
  int64_t bytes_of_step;  // may be 0
};

// Prefetches a line of memory for reading, to the L2 cache.
MTL_INLINE void prefetch_ahead(const char* line) { __builtin_prefetch(line, 0, 2); }

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
  Ahead ahead;
};

// Tiles of vectors prefetch where this was measured: on processors that also have tiles of matrices.
constexpr bool kVectorTilesPrefetch = kHasTiles;

using MultiplyTile = void (*)(const TileProduct&);

struct TileKernel {
  int rows;  // rows that the kernel computes, at least the requested number
  MultiplyTile multiply;
};

// Adds the products of float32 values or, in bfloat16, the products of pairs of neighbours along the inner
// dimension.
struct FloatProducts {
  MTL_INLINE VFloat add(VFloat sums, VUint left, VUint right) {
    return add_product(sums, bits_to_float(left), bits_to_float(right));
  }
};
struct BFloat16PairProducts {
  MTL_INLINE VFloat add(VFloat sums, VUint left, VUint right) { return add_pair_products(sums, left, right); }
};

// Computes one tile. If kInMatrix is true, the left operand is not packed.
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
#pragma GCC unroll 4
    for (int vector = 0; vector < kVectors; ++vector) {
      tile[row][vector] = p.add ? load(p.sums + row * p.row_length + vector * kLanes) : VFloat{};
    }
  }
  const char* ahead = p.ahead.data;
  for (int64_t step = 0; step < p.steps; ++step) {
    if constexpr (kVectorTilesPrefetch) {
      prefetch_ahead(ahead);
      ahead += p.ahead.bytes_of_step;
    }
    VUint of_step[kVectors];
#pragma GCC unroll 4
    for (int vector = 0; vector < kVectors; ++vector) of_step[vector] = p.right[vector * p.right_panel_length + step];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const VUint of_row = (kInMatrix ? rows[row][step] : p.left[step * kLanes + row]) - VUint{};
#pragma GCC unroll 4
      for (int vector = 0; vector < kVectors; ++vector) {
        tile[row][vector] = Products::add(tile[row][vector], of_row, of_step[vector]);
      }
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int vector = 0; vector < kVectors; ++vector) {
      store(p.sums + row * p.row_length + vector * kLanes, tile[row][vector]);
    }
  }
}

// Tiles of at most kMatmulRows rows and kMatmulVectors vectors. The sums, the vectors of the right operand
// and one element of the left operand fit into the registers (24 sums on AVX-512, which has 32; 12 on AVX2
// and SSE, which have 16), and one load of the left operand serves kMatmulVectors multiplications.
template <typename Products>
struct VectorTiles {
  static constexpr int kTileRows = kMatmulRows;
  static constexpr int kTileVectors = kMatmulVectors;
  static constexpr int kRowsOfBlock = 128;  // 384 KiB of the left operand: a share of the L2 cache
  static constexpr int kStepMultiple = 1;   // of a panel's steps
  static constexpr bool kLeftByRow = false;
  static constexpr bool kPrefetchesColumns = kVectorTilesPrefetch, kPrefetchesOutput = kVectorTilesPrefetch;

  // A thread calls these functions before and after it multiplies tiles.
  MTL_INLINE void begin() {}
  MTL_INLINE void end() {}

  // Returns the smallest kernel that has at least `rows` rows. Kernels have 1, 2, 4 or 8 rows.
  MTL_INLINE TileKernel kernel(int64_t rows, int vectors, bool in_matrix) { return of_rows(rows, vectors, in_matrix); }

 private:
  template <int kRows = kTileRows>
  MTL_INLINE TileKernel of_rows(int64_t rows, int vectors, bool in_matrix) {
    if constexpr (kRows > 1) {
      if (rows <= kRows / 2) return of_rows<kRows / 2>(rows, vectors, in_matrix);
    }
    return {kRows, in_matrix ? of_vectors<kRows, true>(vectors) : of_vectors<kRows, false>(vectors)};
  }
  template <int kRows, bool kInMatrix, int kVectors = kTileVectors>
  MTL_INLINE MultiplyTile of_vectors(int vectors) {
    if constexpr (kVectors > 1) {
      if (vectors < kVectors) return of_vectors<kRows, kInMatrix, kVectors - 1>(vectors);
    }
    return multiply_tile<Products, kRows, kVectors, kInMatrix>;
  }
};

}  // namespace
}  // namespace mtl

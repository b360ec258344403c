// The matmuls of attention on the processor's tiles (bfloat16 factors, float32 sums): 2 x 2 tiles at a time.
// Left operands are read a row at a time. Sums along the queries, which give the gradients of keys and
// values, are therefore computed transposed: their left operands (queries and output gradients) are
// transposed once, when they are packed, and not again for each tile of keys.
#pragma once

#include "backends/cpu/simd/attention_tiles.h"

namespace mtl {
namespace {

// Matmuls on tiles. `Tiles` is the tile type of the instruction set.
template <typename Tiles>
struct TileGemm : Bfloat16Words {
  static constexpr int kRowGroup = 2 * Tiles::kRows;
  static constexpr int kStepMultiple = Tiles::kRows;
  static constexpr bool kOnTiles = true;
  static_assert(kTile % kRowGroup == 0 && kLanes == Tiles::kRows, "a tile of attention is whole tiles of the processor");

  MTL_INLINE void begin() { Tiles::begin(); }
  MTL_INLINE void end() { Tiles::end(); }

  // Computes what multiply_rows describes.
  MTL_INLINE void multiply_rows(float* sum, int64_t sum_stride, const Word* left, int64_t left_row, const Word* right,
                                int64_t right_stride, int64_t vectors, int64_t steps, const float* factors) {
    if (factors != kOverwrite && factors != kAdd) multiply_sums(sum, sum_stride, vectors, factors);
    const bool add = factors != kOverwrite;
    for (; vectors >= 2; vectors -= 2) {
      multiply_tiles<2>(sum, sum_stride, left, left_row, right, right_stride, steps, add);
      sum += 2 * kLanes;
      right += 2 * kLanes;
    }
    if (vectors == 1) multiply_tiles<1>(sum, sum_stride, left, left_row, right, right_stride, steps, add);
  }

 private:
  // Multiplies each row of sums by its factor. Most factors are 1.
  MTL_INLINE void multiply_sums(float* sum, int64_t sum_stride, int64_t vectors, const float* factors) {
    for (int64_t first = 0; first < kRowGroup; first += kLanes) {
      for (uint32_t rows = bits_of_mask((VInt)(load(factors + first) != 1.0f)); rows != 0; rows &= rows - 1) {
        const int64_t row = first + __builtin_ctz(rows);
        for (int64_t vector = 0; vector < vectors; ++vector) {
          float* const sums = sum + row * sum_stride + vector * kLanes;
          store(sums, load(sums) * factors[row]);
        }
      }
    }
  }

  template <int kColumnTiles>
  MTL_INLINE void multiply_tiles(float* sum, int64_t sum_stride, const Word* left, int64_t left_row, const Word* right,
                                 int64_t right_stride, int64_t steps, bool add) {
    constexpr int64_t kBytes = sizeof(Word);
    float* const lower_sums = sum + Tiles::kRows * sum_stride;
    const Word* const lower_left = left + Tiles::kRows * left_row;
    if (add) {
      Tiles::load(kUpperLeftSums, sum, sum_stride * kBytes);
      Tiles::load(kLowerLeftSums, lower_sums, sum_stride * kBytes);
      if constexpr (kColumnTiles == 2) Tiles::load(kUpperRightSums, sum + kLanes, sum_stride * kBytes);
      if constexpr (kColumnTiles == 2) Tiles::load(kLowerRightSums, lower_sums + kLanes, sum_stride * kBytes);
    } else {
      Tiles::zero(kUpperLeftSums);
      Tiles::zero(kLowerLeftSums);
      if constexpr (kColumnTiles == 2) Tiles::zero(kUpperRightSums);
      if constexpr (kColumnTiles == 2) Tiles::zero(kLowerRightSums);
    }
    for (int64_t step = 0; step < steps; step += Tiles::kRows) {
      Tiles::load(kUpperRows, left + step, left_row * kBytes);
      Tiles::load(kLeftColumns, right + step * right_stride, right_stride * kBytes);
      Tiles::add_products(kUpperLeftSums, kUpperRows, kLeftColumns);
      Tiles::load(kLowerRows, lower_left + step, left_row * kBytes);
      Tiles::add_products(kLowerLeftSums, kLowerRows, kLeftColumns);
      if constexpr (kColumnTiles == 2) {
        Tiles::load(kRightColumns, right + step * right_stride + kLanes, right_stride * kBytes);
        Tiles::add_products(kUpperRightSums, kUpperRows, kRightColumns);
        Tiles::add_products(kLowerRightSums, kLowerRows, kRightColumns);
      }
    }
    Tiles::store(kUpperLeftSums, sum, sum_stride * kBytes);
    Tiles::store(kLowerLeftSums, lower_sums, sum_stride * kBytes);
    if constexpr (kColumnTiles == 2) Tiles::store(kUpperRightSums, sum + kLanes, sum_stride * kBytes);
    if constexpr (kColumnTiles == 2) Tiles::store(kLowerRightSums, lower_sums + kLanes, sum_stride * kBytes);
  }
};

// Packs columns as rows, packed[column][kTile / kDepth], because a matmul sums along these rows. Zeros fill
// the rows up to kTile and the columns up to whole groups.
template <typename Gemm, typename T>
void pack_columns_as_rows(Word* packed, Matrix<T> matrix) {
  constexpr int64_t kStride = kTile / Gemm::kDepth;
  for (int64_t word = 0; word < kStride; word += kLanes) {
    for (int64_t column = 0; column < round_up(matrix.columns, Gemm::kRowGroup); column += kLanes) {
      VUint words[kLanes];
#pragma GCC unroll 16
      for (int lane = 0; lane < kLanes; ++lane) {
        words[lane] = words_of_rows<Gemm>(matrix, (word + lane) * Gemm::kDepth, column);
      }
      transpose(words);
#pragma GCC unroll 16
      for (int lane = 0; lane < kLanes; ++lane) store_words(packed + (column + lane) * kStride + word, words[lane]);
    }
  }
}

// Calls `body` with two null pointers: to the type of the instruction set's fastest arithmetic, and to the
// C++ type of `dtype`.
template <typename Body>
MTL_INLINE Status for_gemm(DType dtype, const Body& body) {
  if constexpr (kHasTiles) {
    if (dtype == DType::kBFloat16) return body(static_cast<TileGemm<Tiles>*>(nullptr), static_cast<bfloat16*>(nullptr));
  }
  return for_floating(dtype, [&](auto* type) { return body(static_cast<GemmOf<__typeof__(*type)>*>(nullptr), type); });
}

}  // namespace
}  // namespace mtl

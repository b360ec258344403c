// Matmuls of a few rows by a matrix stored [columns, inner], as in generation: memory is read once, and too
// seldom used to be packed. An element is the sum of products of two rows in memory.
#pragma once

#include "backends/cpu/simd/matmul_blocks.h"

namespace mtl {
namespace {

constexpr int kFewRows = 4;
constexpr int kFewFloatRows = 2;  // with more of them oneDNN is faster in float32
constexpr int kDotColumns = MTL_ISA_LEVEL == 2 ? 4 : 2;  // at once: their sums stay in registers

MTL_INLINE bool has_few_rows(const MatmulProblem& p) {
  return p.rows <= (p.input_dtype == DType::kFloat32 ? kFewFloatRows : kFewRows) && p.transpose_right && !p.transpose_left;
}

// sums[kRows, kColumns] of rows of `left` and, from `column` on, of `right`.
template <typename Lanes, int kRows, int kColumns>
MTL_INLINE void multiply_rows(const StoredOperand<typename Lanes::Element>& left,
                              const StoredOperand<typename Lanes::Element>& right, int64_t column, float* sums) {
  VFloat products[kRows][kColumns] = {};
  for (int64_t inner = 0; inner < left.inner; inner += kLanes * Lanes::kElements) {
    const int64_t elements = left.inner - inner;
    VUint of_columns[kColumns];
#pragma GCC unroll 4
    for (int i = 0; i < kColumns; ++i) of_columns[i] = Lanes::steps_of_lane(right.at(column + i, inner), elements);
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
      const VUint of_row = Lanes::steps_of_lane(left.at(row, inner), elements);
#pragma GCC unroll 4
      for (int i = 0; i < kColumns; ++i) {
        products[row][i] = Lanes::Products::add(products[row][i], of_row, of_columns[i]);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kColumns; ++i) sums[row * kColumns + i] = sum(products[row][i]);
  }
}

template <typename Lanes, int kRows, typename Write>
void multiply_columns(const StoredOperand<typename Lanes::Element>& left,
                      const StoredOperand<typename Lanes::Element>& right, int64_t first, int64_t last,
                      const Write& write) {
  float sums[kRows * kDotColumns];
  for (int64_t column = first; column < last;) {
    const int columns = last - column >= kDotColumns ? kDotColumns : 1;
    if (columns == 1) {
      multiply_rows<Lanes, kRows, 1>(left, right, column, sums);
    } else {
      multiply_rows<Lanes, kRows, kDotColumns>(left, right, column, sums);
    }
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < columns; ++i) write(row, column + i, sums[row * columns + i]);
    }
    column += columns;
  }
}

// Calls write(row, column, sum) for each element of the product, on several threads.
template <typename Lanes, typename Write>
void for_few_rows(const StoredOperand<typename Lanes::Element>& left,
                  const StoredOperand<typename Lanes::Element>& right, const Write& write) {
  for_ranges(right.lanes, right.lanes * right.inner, [&](int64_t first, int64_t last) {
    switch (left.lanes) {
      case 1:
        return multiply_columns<Lanes, 1>(left, right, first, last, write);
      case 2:
        return multiply_columns<Lanes, 2>(left, right, first, last, write);
      case 3:
        return multiply_columns<Lanes, 3>(left, right, first, last, write);
      default:
        return multiply_columns<Lanes, 4>(left, right, first, last, write);
    }
  });
}

template <typename Lanes>
Status multiply_few_rows(const MatmulProblem& p) {
  for (int64_t matrix = 0; matrix < p.batch; ++matrix) {
    const Operands<typename Lanes::Element> operands(p, matrix);
    for_few_rows<Lanes>(operands.left, operands.right, [&](int64_t row, int64_t column, float sum) {
      const int64_t at = row * p.output_row_length + column;
      VFloat value = splat(sum);
      if (p.bias != nullptr) value += load_as_float(p.bias_dtype, p.bias, column, 1);
      if (p.accumulate) value += load_as_float(p.output_dtype, operands.output, at, 1);
      store_float_as(p.output_dtype, operands.output, at, value, 1);
    });
  }
  return ok_status();
}

}  // namespace
}  // namespace mtl

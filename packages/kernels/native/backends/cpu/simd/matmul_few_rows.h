// Matmuls of a few rows with a matrix that is stored as [columns, inner], as in generation. The matrix is
// read only once, so packing it would take more time than it saves. An element of the output is the dot
// product of two rows in memory.
#pragma once

#include "backends/cpu/simd/matmul_blocks.h"

namespace mtl {
namespace {

constexpr int64_t kFewRows = 32;  // rows of the sums of one block
constexpr int64_t kLongInner = 256;  // from here on, adding the lanes is a small part of an element's work
constexpr int kDotRows = 4;  // rows computed at once
static_assert(kMostRowsInPlace <= kFewRows, "sums have room for the rows");

// Returns by how many columns `rows` rows are multiplied at a time. The sums fit into registers, and there
// are enough sums that multiplications need not wait for each other: if possible, one sum for each lane of a
// vector.
constexpr int dot_columns(int rows) { return rows > 2 ? (kLanes > 8 ? 4 : 2) : kLanes / rows; }

// Returns the maximum number of rows for which this file's kernels are used. For more rows, packing the
// columns or oneDNN is faster (measured on Zen 4, docs/benchmarks).
MTL_INLINE int64_t most_rows(DType dtype, int64_t inner) {
  if (kMostRowsInPlace > 0 && dtype != DType::kFloat16 && inner >= kLongInner) return kMostRowsInPlace;
  return dtype == DType::kFloat32 ? 2 : kDotRows;
}

// Returns true if this file's kernels can compute the given matmul.
MTL_INLINE bool can_have_few_rows(const MatmulProblem& p) {
  return p.rows <= kFewRows && p.transpose_right && !p.transpose_left;
}

// Returns true if this file's kernels are the fastest for the given matmul, according to `most_rows`.
MTL_INLINE bool has_few_rows(const MatmulProblem& p) {
  return can_have_few_rows(p) && p.rows <= most_rows(p.input_dtype, p.inner);
}

// Replaces each vector i < kHalf: its lanes become sums of two lanes that are kHalf apart, alternately from
// vectors i and i + kHalf.
template <int kHalf>
MTL_INLINE void add_halves(VFloat* vectors) {
  const auto upper = lane_order([](int lane) { return (lane & kHalf) != 0 ? kLanes + lane - kHalf : lane; });
  const auto lower = lane_order([](int lane) { return (lane & kHalf) != 0 ? kLanes + lane : lane + kHalf; });
#pragma GCC unroll 8
  for (int i = 0; i < kHalf; ++i) {
    vectors[i] = shuffle(vectors[i], vectors[i + kHalf], upper) +
                 shuffle(vectors[i], vectors[i + kHalf], lower);
  }
}

// Returns a vector whose lane i is the sum of all lanes of vector i, added in the same order as in `sum`.
MTL_INLINE VFloat sums_of(VFloat* vectors) {
  if constexpr (kLanes >= 16) add_halves<8>(vectors);
  if constexpr (kLanes >= 8) add_halves<4>(vectors);
  add_halves<2>(vectors);
  add_halves<1>(vectors);
  return vectors[0];
}

// Computes sums[kRows, kColumns]: the dot products of the rows of `left` with the columns of `right` from
// `column` on.
template <typename Lanes, int kRows, int kColumns>
MTL_INLINE void multiply_rows(const StoredOperand<typename Lanes::Element>& left,
                              const StoredOperand<typename Lanes::Element>& right, int64_t column, float* sums) {
  VFloat products[kRows][kColumns] = {};
  for (int64_t inner = 0; inner < left.inner; inner += kLanes * Lanes::kElements) {
    const int64_t elements = left.inner - inner;
    VUint of_columns[kColumns];
#pragma GCC unroll 16
    for (int i = 0; i < kColumns; ++i) of_columns[i] = Lanes::steps_of_lane(right.at(column + i, inner), elements);
    // prefetches, because the processor does not detect the access pattern of short rows: many streams within
    // few pages of memory
#pragma GCC unroll 16
    for (int i = 0; i < kColumns; ++i) __builtin_prefetch(right.at(column + kColumns + i, inner), 0, 2);
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const VUint of_row = Lanes::steps_of_lane(left.at(row, inner), elements);
#pragma GCC unroll 16
      for (int i = 0; i < kColumns; ++i) {
        products[row][i] = Lanes::Products::add(products[row][i], of_row, of_columns[i]);
      }
    }
  }
  if constexpr (kRows * kColumns == kLanes) {
    store(sums, sums_of(products[0]));
  } else {
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < kColumns; ++i) sums[row * kColumns + i] = sum(products[row][i]);
    }
  }
}

// Computes sums[kRows, kLanes]: the dot products of the rows of `left` with `count` columns, kColumns columns
// at a time.
template <typename Lanes, int kRows, int kColumns>
MTL_INLINE void multiply_columns(const StoredOperand<typename Lanes::Element>& left,
                                 const StoredOperand<typename Lanes::Element>& right, int64_t column, int64_t count,
                                 float* sums) {
  float block[kRows * kColumns];
  for (int64_t first = 0; first < count;) {
    const int columns = count - first >= kColumns ? kColumns : 1;
    if (columns == 1) {
      multiply_rows<Lanes, kRows, 1>(left, right, column + first, block);
    } else {
      multiply_rows<Lanes, kRows, kColumns>(left, right, column + first, block);
    }
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < columns; ++i) sums[row * kLanes + first + i] = block[row * columns + i];
    }
    first += columns;
  }
}

// Does the same as `multiply_columns` for any number of rows. Few columns are read at a time, so that each
// element is read from memory only once.
template <typename Lanes>
MTL_INLINE void multiply_row_groups(const StoredOperand<typename Lanes::Element>& left,
                                    const StoredOperand<typename Lanes::Element>& right, int64_t column,
                                    int64_t count, float* sums) {
  constexpr int kColumns = dot_columns(kDotRows);
  for (int64_t part = 0; part < count; part += kColumns) {
    const int64_t columns = smaller(kColumns, count - part);
    StoredOperand<typename Lanes::Element> group = left;
    for (int64_t row = 0; row < left.lanes; row += kDotRows) {
      group.data = left.at(row, 0);
      float* const first = sums + row * kLanes + part;
      switch (left.lanes - row) {
        case 1:
          multiply_columns<Lanes, 1, kColumns>(group, right, column + part, columns, first);
          break;
        case 2:
          multiply_columns<Lanes, 2, kColumns>(group, right, column + part, columns, first);
          break;
        case 3:
          multiply_columns<Lanes, 3, kColumns>(group, right, column + part, columns, first);
          break;
        default:
          multiply_columns<Lanes, kDotRows, kColumns>(group, right, column + part, columns, first);
      }
    }
  }
}

template <typename Lanes>
MTL_INLINE void multiply_all_rows(const StoredOperand<typename Lanes::Element>& left,
                                  const StoredOperand<typename Lanes::Element>& right, int64_t column, int64_t count,
                                  float* sums) {
  switch (left.lanes) {
    case 1:
      return multiply_columns<Lanes, 1, dot_columns(1)>(left, right, column, count, sums);
    case 2:
      return multiply_columns<Lanes, 2, dot_columns(2)>(left, right, column, count, sums);
    default:
      return multiply_row_groups<Lanes>(left, right, column, count, sums);
  }
}

template <typename Lanes>
Status multiply_few_rows(const MatmulProblem& p) {
  for (int64_t matrix = 0; matrix < p.batch; ++matrix) {
    const Operands<typename Lanes::Element> operands(p, matrix);
    const int64_t blocks = divide_up(p.columns, kLanes);
    for_ranges(blocks, p.columns * p.inner, [&](int64_t first, int64_t last) {
      float sums[kFewRows * kLanes] __attribute__((aligned(64)));
      for (int64_t block = first; block < last; ++block) {
        const int64_t column = block * kLanes, count = smaller(kLanes, p.columns - column);
        multiply_all_rows<Lanes>(operands.left, operands.right, column, count, sums);
        for (int64_t row = 0; row < p.rows; ++row) {
          const int64_t at = row * p.output_row_length + column;
          VFloat value = load(sums + row * kLanes);
          if (p.bias != nullptr) value += load_as_float(p.bias_dtype, p.bias, column, count);
          if (p.accumulate) value += load_as_float(p.output_dtype, operands.output, at, count);
          store_float_as(p.output_dtype, operands.output, at, value, count);
        }
      }
    });
  }
  return ok_status();
}

}  // namespace
}  // namespace mtl

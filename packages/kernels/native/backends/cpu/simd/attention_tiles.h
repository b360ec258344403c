// Small matmuls for attention on packed tiles that stay in a core's cache.
//
// Operands are arrays of 32-bit words. With float32 arithmetic, a word is one float; with bfloat16 arithmetic
// (if the instruction set multiplies pairs), a word is a pair of neighbours along the summed dimension, which
// one instruction multiplies and adds. The strides are parameters, so that one matmul kernel serves both
// kinds of arithmetic and transposed left operands:
//
//   sum[row, column] += for all steps:
//                       left[row * left_row + step * left_step] * right[step * right_stride + column]
#pragma once

#include <type_traits>

#include "backends/cpu/simd/transpose.h"

namespace mtl {
namespace {

constexpr int64_t kTile = 64;     // rows and keys of a tile; a multiple of the 64 columns of a Philox group
constexpr int kVectorRows = 4;    // rows of a matmul that are in vector registers at the same time
constexpr int64_t kTileVectors = kTile / kLanes;

typedef uint32_t Word __attribute__((may_alias));

MTL_INLINE VUint load_words_whole(const Word* source) { return *reinterpret_cast<const VUintU*>(source); }
MTL_INLINE void store_words(Word* destination, VUint words) { *reinterpret_cast<VUintU*>(destination) = words; }

// ---- the arithmetics ----

// The part that all kinds of arithmetic on vectors have in common.
struct OnVectors {
  static constexpr int kRowGroup = kVectorRows;  // rows that are computed together
  static constexpr int kStepMultiple = 1;        // a sum is padded with zeros to a multiple of this number of steps
  static constexpr bool kOnTiles = false;

  // A thread calls these functions before and after its matmuls.
  MTL_INLINE void begin() {}
  MTL_INLINE void end() {}
};

// Multiplies and adds in float32, for any element type.
struct FloatGemm : OnVectors {
  static constexpr int kDepth = 1;  // elements in a word

  MTL_INLINE VFloat multiply_add(VFloat sum, Word left, VUint right) {
    const VUint lefts = left - VUint{};
    return add_product(sum, (VFloat)lefts, (VFloat)right);
  }
  // Loads the words that contain up to kLanes * kDepth elements. Elements from `count` on are zero.
  template <typename T>
  MTL_INLINE VUint load_words(const T* source, int64_t count) {
    return float_to_bits(load_up_to(source, count));
  }
};

// Operands whose words are pairs of bfloat16.
struct Bfloat16Words {
  static constexpr int kDepth = 2;

  MTL_INLINE VUint load_words(const bfloat16* source, int64_t count) {
    if (count >= 2 * kLanes) return *reinterpret_cast<const VUintU*>(source);  // pairs need not be aligned to words
    return load_pairs(source, count);
  }
};

// Multiplies bfloat16 factors and adds in float32.
struct Bfloat16Gemm : Bfloat16Words, OnVectors {
  MTL_INLINE VFloat multiply_add(VFloat sum, Word left, VUint right) {
    return add_pair_products(sum, left - VUint{}, right);
  }
};

// The arithmetic that vectors use for tensors of type T.
template <typename T>
using GemmOf = std::conditional_t<kHasBfloat16Pairs && std::is_same_v<T, bfloat16>, Bfloat16Gemm, FloatGemm>;

// ---- matmuls ----

template <typename Gemm, int kVectors>
MTL_INLINE void multiply_panel(float* sum, int64_t sum_stride, const Word* left, int64_t left_row, int64_t left_step,
                               const Word* right, int64_t right_stride, int64_t steps, const float* factors) {
  VFloat sums[kVectorRows][kVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kVectorRows; ++row) {
#pragma GCC unroll 8
    for (int vector = 0; vector < kVectors; ++vector) {
      sums[row][vector] = factors == nullptr ? VFloat{} : load(sum + row * sum_stride + vector * kLanes) * factors[row];
    }
  }
  for (int64_t step = 0; step < steps; ++step) {
    VUint rights[kVectors];
#pragma GCC unroll 8
    for (int vector = 0; vector < kVectors; ++vector) rights[vector] = load_words_whole(right + vector * kLanes);
#pragma GCC unroll 8
    for (int row = 0; row < kVectorRows; ++row) {
      const Word word = left[row * left_row];
#pragma GCC unroll 8
      for (int vector = 0; vector < kVectors; ++vector) {
        sums[row][vector] = Gemm::multiply_add(sums[row][vector], word, rights[vector]);
      }
    }
    left += left_step;
    right += right_stride;
  }
#pragma GCC unroll 8
  for (int row = 0; row < kVectorRows; ++row) {
#pragma GCC unroll 8
    for (int vector = 0; vector < kVectors; ++vector) {
      store(sum + row * sum_stride + vector * kLanes, sums[row][vector]);
    }
  }
}

// Factors for multiply_rows. With kAdd, products are added to the existing sums; with kOverwrite, they
// replace the sums.
const float kOnes[kVectorRows] = {1.0f, 1.0f, 1.0f, 1.0f};
constexpr const float* kAdd = kOnes;
constexpr const float* kOverwrite = nullptr;

// Computes Gemm::kRowGroup rows of `vectors` vectors: sum = factors[row] * sum + left @ right, or left @
// right if `factors` is null. On tiles, `left_step` must be 1.
template <typename Gemm>
__attribute__((noinline)) void multiply_rows(float* sum, int64_t sum_stride, const Word* left, int64_t left_row,
                                             int64_t left_step, const Word* right, int64_t right_stride,
                                             int64_t vectors, int64_t steps, const float* factors) {
  if constexpr (Gemm::kOnTiles) {
    return Gemm::multiply_rows(sum, sum_stride, left, left_row, right, right_stride, vectors, steps, factors);
  } else {
    for (; vectors >= kAttentionVectors; vectors -= kAttentionVectors) {
      multiply_panel<Gemm, kAttentionVectors>(sum, sum_stride, left, left_row, left_step, right, right_stride, steps,
                                              factors);
      sum += kAttentionVectors * kLanes;
      right += kAttentionVectors * kLanes;
    }
    if constexpr (kAttentionVectors > 3) {
      if (vectors == 3) {
        multiply_panel<Gemm, 3>(sum, sum_stride, left, left_row, left_step, right, right_stride, steps, factors);
      }
    }
    if constexpr (kAttentionVectors > 2) {
      if (vectors == 2) {
        multiply_panel<Gemm, 2>(sum, sum_stride, left, left_row, left_step, right, right_stride, steps, factors);
      }
    }
    if (vectors == 1) {
      multiply_panel<Gemm, 1>(sum, sum_stride, left, left_row, left_step, right, right_stride, steps, factors);
    }
  }
}

// ---- packing ----

// A strided matrix in a tensor, with `rows` rows of `columns` elements.
template <typename T>
struct Matrix {
  T* data;
  int64_t stride, rows, columns;
};

template <typename T>
MTL_INLINE Matrix<T> rows_of(const Matrix<T>& matrix, int64_t first) {
  return {matrix.data + first * matrix.stride, matrix.stride, smaller(kTile, matrix.rows - first), matrix.columns};
}

// Where results for operands of type T are stored: rounded to T in one matrix, or as float32 in a second
// matrix. The matrix that is not used has no rows.
template <typename T>
struct Results {
  Matrix<T> rounded;
  Matrix<float> exact;
};

template <typename T>
MTL_INLINE Results<T> rows_of(const Results<T>& results, int64_t first) {
  if (results.exact.data != nullptr) return {{}, rows_of(results.exact, first)};
  return {rows_of(results.rounded, first), {}};
}

// Calls `body` with the matrix that is used.
template <typename T, typename Body>
MTL_INLINE void with_matrix(const Results<T>& results, const Body& body) {
  if (results.exact.data != nullptr) {
    body(results.exact);
  } else {
    body(results.rounded);
  }
}

// Prefetches `count` rows of a tile's matrix, from row `first` on. The hardware prefetcher does not predict
// the rows of one head, because they are kilobytes apart. Prefetching a few rows at a time during matmuls
// costs no time.
template <bool kWrite = false, typename T>
MTL_INLINE void prefetch_rows(const Matrix<T>& matrix, int64_t first, int64_t count) {
  const int64_t end = smaller(first + count, matrix.rows);
  for (int64_t row = first; row < end; ++row) {
    const char* begin = reinterpret_cast<const char*>(matrix.data + row * matrix.stride);
    const int64_t bytes = matrix.columns * static_cast<int64_t>(sizeof(T));
    for (int64_t offset = 0; offset < bytes; offset += 64) __builtin_prefetch(begin + offset, kWrite, 2);
  }
}

template <bool kWrite = false, typename T>
MTL_INLINE void prefetch_rows(const Results<T>& results, int64_t first, int64_t count) {
  with_matrix(results, [&](const auto& matrix) { prefetch_rows<kWrite>(matrix, first, count); });
}

// Returns how many words a row of `columns` elements takes, rounded up to whole vectors.
template <typename Gemm>
MTL_INLINE int64_t row_words(int64_t columns) {
  return round_up((columns + Gemm::kDepth - 1) / Gemm::kDepth, kLanes);
}

// Returns how many steps a sum over `elements` elements has.
template <typename Gemm>
MTL_INLINE int64_t steps_of(int64_t elements) {
  return round_up(divide_up(elements, Gemm::kDepth), Gemm::kStepMultiple);
}

// Packs rows for a matmul that sums along the columns, packed[row][row_words(columns)]. Zeros fill the rows
// up to a multiple of Gemm::kRowGroup.
template <typename Gemm, typename T>
void pack_rows(Word* packed, Matrix<T> matrix) {
  const int64_t stride = row_words<Gemm>(matrix.columns);
  const int64_t padded_rows = round_up(matrix.rows, Gemm::kRowGroup);
  for (int64_t row = 0; row < padded_rows; ++row) {
    for (int64_t word = 0; word < stride; word += kLanes) {
      const int64_t column = word * Gemm::kDepth;
      const VUint words = row < matrix.rows ? Gemm::load_words(matrix.data + row * matrix.stride + column,
                                                               matrix.columns - column)
                                            : VUint{};
      store_words(packed + row * stride + word, words);
    }
  }
}

// Packs at most kTile rows as columns, packed[word of the column][kTile], for a matmul that sums along the
// columns of the matrix. Missing elements become zeros.
template <typename Gemm, typename T>
void pack_transposed(Word* packed, Matrix<T> matrix) {
  const int64_t num_words = steps_of<Gemm>(matrix.columns);
  for (int64_t row = 0; row < kTile; row += kLanes) {
    for (int64_t word = 0; word < num_words; word += kLanes) {
      const int64_t column = word * Gemm::kDepth;
      VUint words[kLanes];
#pragma GCC unroll 16
      for (int lane = 0; lane < kLanes; ++lane) {
        words[lane] = row + lane < matrix.rows
                          ? Gemm::load_words(matrix.data + (row + lane) * matrix.stride + column,
                                             matrix.columns - column)
                          : VUint{};
      }
      transpose(words);
#pragma GCC unroll 16
      for (int lane = 0; lane < kLanes; ++lane) {
        if (word + lane < num_words) store_words(packed + (word + lane) * kTile + row, words[lane]);
      }
    }
  }
}

// Returns kLanes neighbouring words, from `row` and `column` on. Each word contains kDepth rows of one
// column, and zeros beyond the matrix.
template <typename Gemm, typename T>
MTL_INLINE VUint words_of_rows(const Matrix<T>& matrix, int64_t row, int64_t column) {
  VUint words = {};
  for (int part = 0; part < Gemm::kDepth; ++part) {
    if (row + part >= matrix.rows) continue;
    const T* source = matrix.data + (row + part) * matrix.stride + column;
    const VUint bits = float_to_bits(load_up_to(source, matrix.columns - column));
    words |= Gemm::kDepth == 1 ? bits : part == 0 ? bits >> 16 : bits;  // bfloat16 is the upper half of a float
  }
  return words;
}

// Packs columns for a matmul that sums along the rows, packed[row / kDepth][columns rounded up to vectors].
// Zeros fill the rows up to kTile.
template <typename Gemm, typename T>
void pack_columns(Word* packed, Matrix<T> matrix) {
  const int64_t stride = round_up(matrix.columns, kLanes);
  for (int64_t row = 0; row < kTile; row += Gemm::kDepth) {
    for (int64_t column = 0; column < stride; column += kLanes) {
      store_words(packed + row / Gemm::kDepth * stride + column, words_of_rows<Gemm>(matrix, row, column));
    }
  }
}

}  // namespace
}  // namespace mtl

// The matmuls of attention on tiles of AMX (bfloat16 factors, float32 sums): 32 rows and 32 columns at a
// time. Left operands are read a row at a time. Sums along the queries, for the gradients of keys and values,
// are therefore computed transposed: their left operands (queries and output gradients) are transposed once,
// when they are packed, and not for each tile of keys. These kernels have not run on a processor with AMX
// yet; tests emulate the instructions (tests/amx_traps.h).
#pragma once

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/simd/amx.h"
#include "backends/cpu/simd/attention_tiles.h"

namespace mtl {
namespace {

#ifdef MTL_HAS_AMX_KERNELS

struct AmxGemm : Bfloat16Words {
  static constexpr int kRowGroup = 2 * kAmxRows;
  static constexpr int kStepMultiple = kAmxRows;
  static constexpr bool kOnTiles = true;

  MTL_INLINE void begin() { begin_amx(); }
  MTL_INLINE void end() { end_amx(); }
};
static_assert(kTile % AmxGemm::kRowGroup == 0 && kLanes == kAmxRows, "a tile of attention is whole tiles of AMX");

// Tiles 0 to 3: sums; 4 and 5: rows of the left operand; 6 and 7: columns of the right one.
template <int kColumnTiles>
MTL_INLINE void multiply_amx_rows(float* sum, int64_t sum_stride, const Word* left, int64_t left_row, const Word* right,
                                  int64_t right_stride, int64_t steps, bool add) {
  constexpr int64_t kBytes = sizeof(Word);
  float* const second_rows = sum + kAmxRows * sum_stride;
  const Word* const second_left = left + kAmxRows * left_row;
  if (add) {
    load_tile<0>(sum, sum_stride * kBytes);
    load_tile<2>(second_rows, sum_stride * kBytes);
    if constexpr (kColumnTiles == 2) load_tile<1>(sum + kLanes, sum_stride * kBytes);
    if constexpr (kColumnTiles == 2) load_tile<3>(second_rows + kLanes, sum_stride * kBytes);
  } else {
    zero_tile<0>();
    zero_tile<2>();
    if constexpr (kColumnTiles == 2) zero_tile<1>();
    if constexpr (kColumnTiles == 2) zero_tile<3>();
  }
  for (int64_t step = 0; step < steps; step += kAmxRows) {
    load_tile<4>(left + step, left_row * kBytes);
    load_tile<6>(right + step * right_stride, right_stride * kBytes);
    add_bfloat16_products<0, 4, 6>();
    load_tile<5>(second_left + step, left_row * kBytes);
    add_bfloat16_products<2, 5, 6>();
    if constexpr (kColumnTiles == 2) {
      load_tile<7>(right + step * right_stride + kLanes, right_stride * kBytes);
      add_bfloat16_products<1, 4, 7>();
      add_bfloat16_products<3, 5, 7>();
    }
  }
  store_tile<0>(sum, sum_stride * kBytes);
  store_tile<2>(second_rows, sum_stride * kBytes);
  if constexpr (kColumnTiles == 2) store_tile<1>(sum + kLanes, sum_stride * kBytes);
  if constexpr (kColumnTiles == 2) store_tile<3>(second_rows + kLanes, sum_stride * kBytes);
}

// Requires that `left_step` is 1.
template <>
__attribute__((noinline)) void multiply_rows<AmxGemm>(float* sum, int64_t sum_stride, const Word* left,
                                                      int64_t left_row, int64_t, const Word* right,
                                                      int64_t right_stride, int64_t vectors, int64_t steps,
                                                      const float* factors) {
  for (int64_t row = 0; factors != kOverwrite && factors != kAdd && row < AmxGemm::kRowGroup; ++row) {
    for (int64_t vector = 0; vector < vectors; ++vector) {
      float* const sums = sum + row * sum_stride + vector * kLanes;
      store(sums, load(sums) * factors[row]);
    }
  }
  const bool add = factors != kOverwrite;
  for (; vectors >= 2; vectors -= 2) {
    multiply_amx_rows<2>(sum, sum_stride, left, left_row, right, right_stride, steps, add);
    sum += 2 * kLanes;
    right += 2 * kLanes;
  }
  if (vectors == 1) multiply_amx_rows<1>(sum, sum_stride, left, left_row, right, right_stride, steps, add);
}

// Packs columns as rows, packed[column][kTile / kDepth]: sums run along these rows. Fills up to kTile rows
// and whole groups of columns with zeros.
template <typename T>
void pack_columns_as_rows(Word* packed, Matrix<T> matrix) {
  constexpr int64_t kStride = kTile / AmxGemm::kDepth;
  for (int64_t word = 0; word < kStride; word += kLanes) {
    for (int64_t column = 0; column < round_up(matrix.columns, AmxGemm::kRowGroup); column += kLanes) {
      VUint words[kLanes];
#pragma GCC unroll 16
      for (int lane = 0; lane < kLanes; ++lane) {
        words[lane] = words_of_rows<AmxGemm>(matrix, (word + lane) * AmxGemm::kDepth, column);
      }
      transpose(words);
#pragma GCC unroll 16
      for (int lane = 0; lane < kLanes; ++lane) store_words(packed + (column + lane) * kStride + word, words[lane]);
    }
  }
}

#endif

// Calls `body` with two null pointers whose types are the processor's fastest arithmetic and the C++ type of
// `dtype`.
template <typename Body>
MTL_INLINE Status for_gemm(DType dtype, const Body& body) {
#ifdef MTL_HAS_AMX_KERNELS
  if (dtype == DType::kBFloat16 && has_amx()) {
    return body(static_cast<AmxGemm*>(nullptr), static_cast<bfloat16*>(nullptr));
  }
#endif
  return for_floating(dtype, [&](auto* type) {
    return body(static_cast<typename GemmOf<__typeof__(*type)>::Type*>(nullptr), type);
  });
}

}  // namespace
}  // namespace mtl

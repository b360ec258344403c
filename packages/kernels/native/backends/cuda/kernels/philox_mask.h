// Dropout masks on the GPU, with the generator and the coordinates of core/philox.h.
#pragma once

#include "backends/cuda/kernels/values.h"
#include "core/philox.h"

namespace mtl::cuda {

constexpr int kPhiloxGroup = 64;  // columns that share 16 counters

// The parameters of a mask, without the coordinates.
struct DropoutMask {
  PhiloxKey key;
  uint32_t threshold;  // an element is dropped if its random bits are below this; 0: no dropout
  float scale;         // 1 / (1 - probability)
};

// The global coordinates of a row of elements.
struct MaskRow {
  uint32_t row, sample_low, sample_high;
};

__device__ __forceinline__ MaskRow mask_row(int64_t row, int64_t sample, int64_t head = 0) {
  return {static_cast<uint32_t>(row), philox_sample_low(sample), philox_sample_high(sample, head)};
}

// Returns the random words that one counter gives for several columns.
__device__ __forceinline__ PhiloxBlock mask_words(const DropoutMask& mask, const MaskRow& row, uint32_t counter) {
  return philox(mask.key, counter, row.row, row.sample_low, row.sample_high);
}

// Returns an element's factor: 0, or the scale.
__device__ __forceinline__ float mask_factor(const DropoutMask& mask, const MaskRow& row, int64_t column) {
  const PhiloxBlock block = mask_words(mask, row, philox_column_counter(column));
  const int word = philox_column_word(column);
  // the indices are known at compile time, so that the words stay in registers
  const uint32_t low = word == 0 ? block.words[0] : block.words[1], high = word == 2 ? block.words[2] : block.words[3];
  return (word < 2 ? low : high) < mask.threshold ? 0.0f : mask.scale;
}

}  // namespace mtl::cuda

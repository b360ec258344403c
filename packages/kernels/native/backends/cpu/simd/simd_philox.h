// Philox for kLanes counters at a time. The mapping is the same as in core/philox.h: neighbouring lanes are
// neighbouring columns.
#pragma once

#include "backends/cpu/simd/simd.h"
#include "core/philox.h"

namespace mtl {
namespace {

struct VPhiloxBlock {
  VUint words[4];
};

// Computes Philox blocks. Lane i has the column counter `column_counter + i`; the remaining counter words are
// the same for all lanes.
MTL_INLINE VPhiloxBlock philox_lanes(PhiloxKey key, uint32_t column_counter, uint32_t row, uint32_t sample_low,
                                     uint32_t sample_high) {
  VUint c0, c1, c2, c3;
  for (int lane = 0; lane < kLanes; ++lane) c0[lane] = column_counter + static_cast<uint32_t>(lane);
  c1 = row - VUint{};
  c2 = sample_low - VUint{};
  c3 = sample_high - VUint{};
  for (int round = 0; round < kPhiloxRounds; ++round) {
    VUint low0, high0, low1, high1;
    multiply_wide(c0, kPhiloxMultiplier0, &low0, &high0);
    multiply_wide(c2, kPhiloxMultiplier1, &low1, &high1);
    c0 = high1 ^ c1 ^ key.low;
    c2 = high0 ^ c3 ^ key.high;
    c1 = low1;
    c3 = low0;
    key.low += kPhiloxWeyl0;
    key.high += kPhiloxWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

// Returns a mask whose bits are all set in the lanes of kept elements.
MTL_INLINE VInt kept(VUint random, uint32_t threshold) { return (VInt)(random >= threshold); }

// Computes the dropout masks for the 64 columns in a group (whose first column is 64 * group), as 64 / kLanes
// vectors in column order.
MTL_INLINE void keep_masks_of_group(VInt* masks, PhiloxKey key, int64_t group, uint32_t row, uint32_t sample_low,
                                    uint32_t sample_high, uint32_t threshold) {
  constexpr int kVectorsPerWord = 16 / kLanes;
  for (int part = 0; part < kVectorsPerWord; ++part) {
    const uint32_t counter = static_cast<uint32_t>(group * 16 + part * kLanes);
    const VPhiloxBlock block = philox_lanes(key, counter, row, sample_low, sample_high);
    for (int word = 0; word < 4; ++word) masks[word * kVectorsPerWord + part] = kept(block.words[word], threshold);
  }
}

}  // namespace
}  // namespace mtl

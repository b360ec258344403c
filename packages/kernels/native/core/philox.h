// Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") and the mapping of
// tensor elements to its counters. With this mapping, random values depend only on global coordinates, never
// on the parallel layout.
//
//   key      = (key low, key high): 64 bits derived from the seed and the logical name of the site
//   counter  = (column counter, row, sample low, sample high | head << 16)
//   columns are in groups of 64: column c uses word (c / 16) % 4 of column counter (c / 64) * 16 + c % 16, so
//   that the four words of 16 neighbouring counters are 64 neighbouring columns: vector code needs no
//   shuffles.
//
// Hidden dropout: column = hidden index, row = sequence position. Attention dropout: column = key, row =
// query.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace mtl {

struct PhiloxKey {
  uint32_t low, high;
};

struct PhiloxBlock {
  uint32_t words[4];
};

constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u;
constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u;
constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85u;
constexpr int kPhiloxRounds = 10;

MTL_HOST_DEVICE static inline PhiloxBlock philox(PhiloxKey key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * c0;
    const uint64_t product1 = uint64_t{kPhiloxMultiplier1} * c2;
    const uint32_t next0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key.low;
    const uint32_t next2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key.high;
    c1 = static_cast<uint32_t>(product1);
    c3 = static_cast<uint32_t>(product0);
    c0 = next0;
    c2 = next2;
    key.low += kPhiloxWeyl0;
    key.high += kPhiloxWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

MTL_HOST_DEVICE static inline uint32_t philox_column_counter(int64_t column) {
  return static_cast<uint32_t>(column / 64 * 16 + column % 16);
}

MTL_HOST_DEVICE static inline int philox_column_word(int64_t column) { return static_cast<int>(column / 16 % 4); }

MTL_HOST_DEVICE static inline uint32_t philox_sample_low(int64_t sample) { return static_cast<uint32_t>(sample); }

MTL_HOST_DEVICE static inline uint32_t philox_sample_high(int64_t sample, int64_t head) {
  return (static_cast<uint32_t>(static_cast<uint64_t>(sample) >> 32) & 0xffffu) | static_cast<uint32_t>(head) << 16;
}

// Returns an element's 32 random bits. The element is dropped if these bits are below
// dropout_threshold(probability).
MTL_HOST_DEVICE static inline uint32_t philox_element(PhiloxKey key, int64_t column, int64_t row, int64_t sample, int64_t head) {
  return philox(key, philox_column_counter(column), static_cast<uint32_t>(row), philox_sample_low(sample),
                philox_sample_high(sample, head))
      .words[philox_column_word(column)];
}

MTL_HOST_DEVICE static inline uint32_t dropout_threshold(double probability) {
  return static_cast<uint32_t>(probability * 4294967296.0);
}

}  // namespace mtl

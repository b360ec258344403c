// Philox for a tile of a matrix: 64 columns (a group in core/philox.h) in many rows. It produces the same
// random bits as simd_philox.h with less work per row: round keys are expanded once, and the first two of the
// ten rounds need only two scalars per row.
//
// Counters are in 64-bit lanes whose upper halves may contain anything: the CPU multiplies the lower halves
// and gives a 64-bit result. Its low word is already in the right position; its high word needs one shift.
#pragma once

#include "backends/cpu/simd/simd.h"
#include "core/philox.h"

namespace mtl {
namespace {

constexpr int kLongLanes = kLanes / 2;
constexpr int kLongVectors = 16 / kLongLanes;  // for the 16 counters of 64 columns; even and odd counters alternate

// The keys of all rounds, and a call's sample.
struct PhiloxSite {
  uint32_t low_keys[kPhiloxRounds], high_keys[kPhiloxRounds];
  uint32_t sample_low, sample_high;
};

MTL_INLINE PhiloxSite philox_site(PhiloxKey key, uint32_t sample_low, uint32_t sample_high) {
  PhiloxSite site;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    site.low_keys[round] = key.low + static_cast<uint32_t>(round) * kPhiloxWeyl0;
    site.high_keys[round] = key.high + static_cast<uint32_t>(round) * kPhiloxWeyl1;
  }
  site.sample_low = sample_low;
  site.sample_high = sample_high;
  return site;
}

// The counters of 64 columns after two rounds, without the part that depends on the row: word 2 must still be
// xored with a scalar, and word 3 is a scalar.
struct PhiloxColumns {
  VLong word0[kLongVectors], word1[kLongVectors], word2[kLongVectors];
};

MTL_INLINE PhiloxColumns philox_columns(const PhiloxSite& site, int64_t group) {
  PhiloxColumns columns;
  const uint64_t sample_product = uint64_t{kPhiloxMultiplier1} * site.sample_low;
  for (int vector = 0; vector < kLongVectors; ++vector) {
    VLong counter = {};
    for (int lane = 0; lane < kLongLanes; ++lane) {
      counter[lane] = static_cast<uint32_t>(group * 16 + vector / 2 * kLanes + 2 * lane + vector % 2);
    }
    const VLong product = multiply_low_words(counter, kPhiloxMultiplier0);
    const VLong second = multiply_low_words((product >> 32) ^ uint64_t{site.sample_high ^ site.high_keys[0]},
                                            kPhiloxMultiplier1);
    columns.word0[vector] = (second >> 32) ^ uint64_t{static_cast<uint32_t>(sample_product) ^ site.low_keys[1]};
    columns.word1[vector] = second;
    columns.word2[vector] = product;
  }
  return columns;
}

// Computes the dropout masks for a row: 64 / kLanes vectors in column order, in which all bits are set for
// kept elements.
MTL_INLINE void keep_masks_of_row(VInt* masks, const PhiloxSite& site, const PhiloxColumns& columns, uint32_t row,
                                  uint32_t threshold) {
  const uint32_t first_word0 =
      static_cast<uint32_t>((uint64_t{kPhiloxMultiplier1} * site.sample_low) >> 32) ^ row ^ site.low_keys[0];
  const uint64_t row_product = uint64_t{kPhiloxMultiplier0} * first_word0;
  const uint64_t row_word2 = static_cast<uint32_t>(row_product >> 32) ^ site.high_keys[1];
  VLong words[4][kLongVectors];
#pragma GCC unroll 8
  for (int vector = 0; vector < kLongVectors; ++vector) {
    VLong c0 = columns.word0[vector], c1 = columns.word1[vector], c2 = columns.word2[vector] ^ row_word2;
    VLong c3 = static_cast<uint64_t>(static_cast<uint32_t>(row_product)) - VLong{};
#pragma GCC unroll 8
    for (int round = 2; round < kPhiloxRounds; ++round) {
      const VLong product0 = multiply_low_words(c0, kPhiloxMultiplier0);
      const VLong product1 = multiply_low_words(c2, kPhiloxMultiplier1);
      // each key is in both halves of a lane, which saves an instruction for extending it; the upper half has
      // no effect
      const VLong low_key = (VLong)(site.low_keys[round] - VUint{});
      const VLong high_key = (VLong)(site.high_keys[round] - VUint{});
      c0 = (product1 >> 32) ^ c1 ^ low_key;
      c2 = (product0 >> 32) ^ c3 ^ high_key;
      c1 = product1;
      c3 = product0;
    }
    words[0][vector] = c0, words[1][vector] = c1, words[2][vector] = c2, words[3][vector] = c3;
  }
  constexpr int kVectorsPerWord = 16 / kLanes;
#pragma GCC unroll 4
  for (int word = 0; word < 4; ++word) {
#pragma GCC unroll 4
    for (int part = 0; part < kVectorsPerWord; ++part) {
      const VLong random = (words[word][2 * part] & 0xffffffffu) | words[word][2 * part + 1] << 32;
      masks[word * kVectorsPerWord + part] = (VInt)((VUint)random >= threshold);
    }
  }
}

}  // namespace
}  // namespace mtl

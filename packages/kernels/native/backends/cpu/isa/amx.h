// AVX-512 with the tiles of Intel's Advanced Matrix Extensions: eight registers of 16 rows of 64 bytes, and
// an instruction that multiplies two bfloat16 tiles and gives float32.
#pragma once

#include "backends/cpu/isa/avx512_vectors.h"

namespace mtl {
namespace {

// Each operation on memory is also a compiler barrier, because the compiler does not know which bytes the
// operation accesses.
struct AmxTiles {
  static constexpr bool kExist = true;
  static constexpr int kRows = 16, kRowBytes = 64;

  MTL_INLINE void begin() {
    struct {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t bytes_of_row[16] = {};
      uint8_t rows[16] = {};
    } configuration __attribute__((aligned(64)));
    for (int tile = 0; tile < 8; ++tile) {
      configuration.bytes_of_row[tile] = kRowBytes;
      configuration.rows[tile] = kRows;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(configuration));
  }
  MTL_INLINE void end() { __asm__ volatile("tilerelease"); }

  template <int kTile>
  MTL_INLINE void zero(TileNumber<kTile>) {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  MTL_INLINE void load(TileNumber<kTile>, const void* source, int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(source), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  MTL_INLINE void store(TileNumber<kTile>, void* destination, int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(destination), "r"(stride), "i"(kTile) : "memory");
  }
  // Numbers below 2^-126 count as zeros.
  template <int kSums, int kLeft, int kRight>
  MTL_INLINE void add_products(TileNumber<kSums>, TileNumber<kLeft>, TileNumber<kRight>) {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight));
  }
};
using Tiles = AmxTiles;

}  // namespace
}  // namespace mtl

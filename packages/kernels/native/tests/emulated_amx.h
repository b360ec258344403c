// An instruction set for tests: tiles as Intel's AMX has them, in plain C++, and vectors of 16 lanes that the
// compiler splits, so that the kernels on tiles run on any processor.
#pragma once

#include <string.h>

namespace mtl {
namespace {
constexpr int kLanes = 16;
}
}  // namespace mtl

#include "backends/cpu/isa/portable.h"
#include "backends/cpu/isa/tiles.h"

namespace mtl {
namespace {

constexpr bool kHasBfloat16Pairs = false;

constexpr int kMatmulRows = 4, kMatmulVectors = 3;
constexpr int kAttentionVectors = 2;
constexpr int64_t kMostRowsInPlace = 0;

using namespace portable;

struct EmulatedTile {
  uint32_t lanes[16][16];
};
thread_local EmulatedTile emulated_tiles[8];
thread_local bool emulation_began = false;

struct EmulatedTiles {
  static constexpr bool kExist = true;
  static constexpr int kRows = 16, kRowBytes = 64;

  MTL_INLINE void begin() { emulation_began = true; }
  MTL_INLINE void end() { emulation_began = false; }

  template <int kTile>
  MTL_INLINE void zero(TileNumber<kTile> number) {
    tile(number) = EmulatedTile{};
  }
  template <int kTile>
  MTL_INLINE void load(TileNumber<kTile> number, const void* source, int64_t stride) {
    for (int row = 0; row < kRows; ++row) {
      memcpy(tile(number).lanes[row], static_cast<const char*>(source) + row * stride, kRowBytes);
    }
  }
  template <int kTile>
  MTL_INLINE void store(TileNumber<kTile> number, void* destination, int64_t stride) {
    for (int row = 0; row < kRows; ++row) {
      memcpy(static_cast<char*>(destination) + row * stride, tile(number).lanes[row], kRowBytes);
    }
  }
  template <int kSums, int kLeft, int kRight>
  MTL_INLINE void add_products(TileNumber<kSums> sums_number, TileNumber<kLeft> left_number,
                               TileNumber<kRight> right_number) {
    const EmulatedTile &left = tile(left_number), &right = tile(right_number);
    EmulatedTile& sums = tile(sums_number);
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kRows; ++column) {
        float sum;
        memcpy(&sum, &sums.lanes[row][column], sizeof sum);
        for (int step = 0; step < kRows; ++step) {
          const uint32_t a = left.lanes[row][step], b = right.lanes[step][column];
          sum += number_in(a << 16) * number_in(b << 16);
          sum += number_in(a & 0xffff0000u) * number_in(b & 0xffff0000u);
        }
        memcpy(&sums.lanes[row][column], &sum, sizeof sum);
      }
    }
  }

 private:
  // Returns a tile. Fails without `begin`, as the processor does.
  template <int kTile>
  MTL_INLINE EmulatedTile& tile(TileNumber<kTile>) {
    if (!emulation_began) __builtin_trap();
    return emulated_tiles[kTile];
  }
  MTL_INLINE float number_in(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
  }
};
using Tiles = EmulatedTiles;

}  // namespace
}  // namespace mtl

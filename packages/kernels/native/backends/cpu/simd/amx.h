// Tiles of Intel's Advanced Matrix Extensions: registers of 16 rows of 64 bytes, and the product of two
// bfloat16 tiles in float32. With MTL_EMULATE_AMX the same operations are plain C++, which tests compile to
// check the kernels on any processor.
#pragma once

#include <string.h>

#include "backends/cpu/simd/simd.h"

#ifdef MTL_SIXTEEN_LANES
#define MTL_HAS_AMX_KERNELS
namespace mtl {
namespace {

constexpr int kAmxRows = 16;
constexpr int kAmxBytes = 64;  // bytes of a tile's row

#ifndef MTL_EMULATE_AMX

// Gives the calling thread eight tiles of full size.
MTL_INLINE void begin_amx() {
  struct {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes_of_row[16] = {};
    uint8_t rows[16] = {};
  } configuration __attribute__((aligned(64)));
  for (int tile = 0; tile < 8; ++tile) {
    configuration.bytes_of_row[tile] = kAmxBytes;
    configuration.rows[tile] = kAmxRows;
  }
  __asm__ volatile("ldtilecfg %0" ::"m"(configuration));
}
MTL_INLINE void end_amx() { __asm__ volatile("tilerelease"); }

// Tile numbers are template parameters, because the assembler must know them. Each operation is a compiler
// barrier for memory: the compiler does not know which bytes the operation accesses.
template <int kTile>
MTL_INLINE void zero_tile() {
  __asm__ volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
// Loads a tile whose rows begin `stride` bytes apart in memory.
template <int kTile>
MTL_INLINE void load_tile(const void* source, int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(source), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
MTL_INLINE void store_tile(void* destination, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(destination), "r"(stride), "i"(kTile) : "memory");
}
// sums[row, column] += left[row, 2 step + i] right[step, 2 column + i]; numbers below 2^-126 count as zeros.
template <int kSums, int kLeft, int kRight>
MTL_INLINE void add_bfloat16_products() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight));
}

#else

struct AmxTile {
  uint32_t lanes[kAmxRows][kAmxBytes / 4];
};
thread_local AmxTile emulated_tiles[8];
thread_local bool amx_began = false;

MTL_INLINE void begin_amx() { amx_began = true; }
MTL_INLINE void end_amx() { amx_began = false; }

// Returns a tile. Fails without begin_amx, as the processor does.
template <int kTile>
MTL_INLINE AmxTile& emulated_tile() {
  if (!amx_began) __builtin_trap();
  return emulated_tiles[kTile];
}
template <int kTile>
MTL_INLINE void zero_tile() {
  emulated_tile<kTile>() = AmxTile{};
}
template <int kTile>
MTL_INLINE void load_tile(const void* source, int64_t stride) {
  for (int row = 0; row < kAmxRows; ++row) {
    memcpy(emulated_tile<kTile>().lanes[row], static_cast<const char*>(source) + row * stride, kAmxBytes);
  }
}
template <int kTile>
MTL_INLINE void store_tile(void* destination, int64_t stride) {
  for (int row = 0; row < kAmxRows; ++row) {
    memcpy(static_cast<char*>(destination) + row * stride, emulated_tile<kTile>().lanes[row], kAmxBytes);
  }
}
template <int kSums, int kLeft, int kRight>
MTL_INLINE void add_bfloat16_products() {
  const AmxTile &left = emulated_tile<kLeft>(), &right = emulated_tile<kRight>();
  AmxTile& sums = emulated_tile<kSums>();
  for (int row = 0; row < kAmxRows; ++row) {
    for (int column = 0; column < kAmxRows; ++column) {
      float sum;
      memcpy(&sum, &sums.lanes[row][column], sizeof sum);
      for (int step = 0; step < kAmxRows; ++step) {
        const uint32_t a = left.lanes[row][step], b = right.lanes[step][column];
        const bfloat16 of_left[2] = {{static_cast<uint16_t>(a)}, {static_cast<uint16_t>(a >> 16)}};
        const bfloat16 of_right[2] = {{static_cast<uint16_t>(b)}, {static_cast<uint16_t>(b >> 16)}};
        for (int i = 0; i < 2; ++i) sum += load_one(&of_left[i]) * load_one(&of_right[i]);
      }
      memcpy(&sums.lanes[row][column], &sum, sizeof sum);
    }
  }
}

#endif

}  // namespace
}  // namespace mtl
#endif

// 128-bit vectors for any processor. The compiler generates the instructions. To support another processor
// with 128-bit vectors, copy this file and replace the using-declarations by the processor's instructions.
#pragma once

namespace mtl {
namespace {
constexpr int kLanes = 4;
}
}  // namespace mtl

#include "backends/cpu/isa/portable.h"
#include "backends/cpu/isa/tiles.h"

namespace mtl {
namespace {

constexpr bool kHasBfloat16Pairs = false;
using Tiles = NoTiles;

// for 16 vector registers
constexpr int kMatmulRows = 4, kMatmulVectors = 3;
constexpr int kAttentionVectors = 2;
constexpr int64_t kMostRowsInPlace = 0;

using portable::widen;
using portable::narrow;
using portable::to_bfloat16;
using portable::from_float16;
using portable::to_float16;

using portable::maximum;
using portable::minimum;
using portable::add_product;
using portable::square_root;
using portable::Power;
using portable::nearest_power;
using portable::times_power;

using portable::sum;
using portable::largest;
using portable::bits_of_mask;

using portable::multiply_wide;
using portable::multiply_low_words;

using portable::load_pairs;
using portable::to_bfloat16_words;
using portable::interleave_halves;
using portable::add_pair_products;

}  // namespace
}  // namespace mtl

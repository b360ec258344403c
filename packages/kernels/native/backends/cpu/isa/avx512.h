// AVX-512 (F, BW, VL, DQ) with instructions that multiply bfloat16 pairs (BF16), without tiles.
#pragma once

#include "backends/cpu/isa/avx512_vectors.h"

namespace mtl {
namespace {

using Tiles = NoTiles;

}  // namespace
}  // namespace mtl

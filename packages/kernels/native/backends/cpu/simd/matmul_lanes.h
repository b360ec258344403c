// Selects how elements of each dtype are multiplied.
#pragma once

#include <type_traits>

#include "backends/cpu/simd/matmul_blocks.h"
#include "backends/cpu/simd/matmul_on_tiles.h"

namespace mtl {
namespace {

template <typename T>
struct FloatLanes : Singles<T>, VectorTiles<FloatProducts> {
  using Products = FloatProducts;
};

struct PairLanes : BFloat16Pairs, VectorTiles<BFloat16PairProducts> {
  using Products = BFloat16PairProducts;
};
using BFloat16Lanes = std::conditional_t<kHasBfloat16Pairs, PairLanes, FloatLanes<bfloat16>>;

// Calls `body` with a null pointer to the lane type that multiplies float32, bfloat16 or float16 in vectors.
template <typename Body>
MTL_INLINE Status for_vector_lanes(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(static_cast<FloatLanes<float>*>(nullptr));
    case DType::kBFloat16:
      return body(static_cast<BFloat16Lanes*>(nullptr));
    default:
      return body(static_cast<FloatLanes<float16>*>(nullptr));
  }
}

// Does the same as `for_vector_lanes`, but selects tiles for bfloat16 if the instruction set has tiles.
template <typename Body>
MTL_INLINE Status for_lanes(DType dtype, const Body& body) {
  if constexpr (kHasTiles) {
    if (dtype == DType::kBFloat16) return body(static_cast<PairsOnTiles<Tiles>*>(nullptr));
  }
  return for_vector_lanes(dtype, body);
}

}  // namespace
}  // namespace mtl

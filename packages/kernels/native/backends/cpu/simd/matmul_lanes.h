// Selects how the elements of each dtype are multiplied.
#pragma once

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/simd/matmul_amx.h"
#include "backends/cpu/simd/matmul_blocks.h"

namespace mtl {
namespace {

template <typename T>
struct FloatLanes : Singles<T>, VectorTiles<FloatProducts> {
  using Products = FloatProducts;
};

#if MTL_ISA_LEVEL == 2
struct PairLanes : BFloat16Pairs, VectorTiles<BFloat16PairProducts> {
  using Products = BFloat16PairProducts;
};
using BFloat16Lanes = PairLanes;
#else
using BFloat16Lanes = FloatLanes<bfloat16>;
#endif

// Calls `body` with a null pointer to the type of lanes with which vectors multiply float32, bfloat16 or
// float16.
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

// Does the same, but selects tiles of AMX where the processor has AMX.
template <typename Body>
MTL_INLINE Status for_lanes(DType dtype, const Body& body) {
#ifdef MTL_HAS_AMX_KERNELS
  if (dtype == DType::kBFloat16 && has_amx()) return body(static_cast<AmxPairs*>(nullptr));
#endif
  return for_vector_lanes(dtype, body);
}

}  // namespace
}  // namespace mtl

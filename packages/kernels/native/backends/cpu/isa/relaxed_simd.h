// WebAssembly's 128-bit vectors with relaxed SIMD: an engine fuses multiplication and addition where the
// processor can, so that results differ from machine to machine.
#pragma once

#include "backends/cpu/isa/simd128_vectors.h"

namespace mtl {
namespace {

MTL_INLINE VFloat add_product(VFloat sum, VFloat a, VFloat b) {
  return (VFloat)wasm_f32x4_relaxed_madd((v128_t)a, (v128_t)b, (v128_t)sum);
}

}  // namespace
}  // namespace mtl

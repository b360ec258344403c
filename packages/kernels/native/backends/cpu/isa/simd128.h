// WebAssembly's 128-bit vectors, without fused multiply-add. On every machine, the results are bit for bit
// the same as with plain vectors.
#pragma once

#include "backends/cpu/isa/simd128_vectors.h"

namespace mtl {
namespace {

using portable::add_product;

}  // namespace
}  // namespace mtl

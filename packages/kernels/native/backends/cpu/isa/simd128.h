// WebAssembly's 128-bit vectors, without fused multiplication and addition. Its results are bit for bit the
// results of plain vectors, on every machine.
#pragma once

#include "backends/cpu/isa/simd128_vectors.h"

namespace mtl {
namespace {

using portable::add_product;

}  // namespace
}  // namespace mtl

// Warp-wide matrix instructions on the registers of 32 fibers. See ptx.h for the register layouts.
#pragma once

#include "emulation/intrinsics.h"

namespace mtl::emulation {

// Adds the matmul of `a` and `b` to `d`. Each lane passes its own registers. T is __nv_bfloat16 or __half.
template <typename T>
void mma(float* d, const uint32_t* a, const uint32_t* b, Site site);

// Loads four matrices of 8 x 8 elements with 16 bits each. `row` is the address in shared memory that this
// lane passes.
template <bool transposed>
void load_matrices(uint32_t (&r)[4], const void* row, Site site);

}  // namespace mtl::emulation

// The PTX instructions that kernels use. Each has one function, which is inline PTX with nvcc, and ordinary
// code with the same effect on the same registers of the same lanes under emulation. Fragment layouts follow
// the PTX ISA, section "Matrix multiply-accumulate operation using mma instruction", m16n8k16 with 16-bit
// operands;
// g = lane / 4, t = lane % 4:
//
//   A (16 x 16)  a[0]: row g, columns 2t, 2t + 1      a[1]: row g + 8      a[2], a[3]: the same, columns + 8
//   B (16 x 8)   b[0]: rows 2t, 2t + 1 of column g    b[1]: rows + 8
//   D (16 x 8)   d[0], d[1]: row g, columns 2t, 2t + 1                     d[2], d[3]: row g + 8
#pragma once

#include <cstdint>

#include "backends/cuda/launch.h"

#if defined(__CUDACC__)
#define MTL_PTX __device__ __forceinline__
#else
#define MTL_PTX inline
#include "emulation/ptx.h"
#endif

#if defined(__CUDACC__)

namespace mtl::cuda {

MTL_PTX uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// Computes d += a b.
MTL_PTX void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], __nv_bfloat16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
MTL_PTX void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], __half) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Loads four 8 x 8 matrices of 16-bit elements. Lane i gives the address of row i % 8 (16 bytes) of matrix
// i / 8. From each matrix, a lane gets the two elements in row lane / 4, columns 2 * (lane % 4) and
// 2 * (lane % 4) + 1. The transposed form loads the same elements of the transposed matrix.
MTL_PTX void load_matrices(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
MTL_PTX void load_matrices_transposed(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// Copies 16 bytes, bypassing registers and L1. If `valid` is false, writes zeros and does not read `global`.
MTL_PTX void copy_async_16(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
}
MTL_PTX void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most the newest `groups_left` groups of this thread's copies are incomplete.
template <int groups_left>
MTL_PTX void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups_left) : "memory");
}

// Synchronizes `threads` threads (whole warps) at one of the barriers 1 to 15; __syncthreads uses barrier 0.
MTL_PTX void meet(int barrier, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }

// Lets the warp's threads arrive at a barrier without waiting for the other threads.
MTL_PTX void announce(int barrier, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }

// Returns 2^x with a relative error of 2^-22. Returns 0 if x is -infinity or the result would be denormal.
MTL_PTX float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace mtl::cuda

#endif

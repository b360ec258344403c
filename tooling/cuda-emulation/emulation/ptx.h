// Emulates the functions of backends/cuda/instructions/ptx.h in @mtl/kernels without a GPU.
#pragma once

#include <cmath>

#include "emulation/ptx_emulation.h"

namespace mtl::cuda {

template <typename T>
void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], T, MTL_SITE_PARAMETERS) {
  emulation::mma<T>(d, a, b, {"mma", file, line});
}
inline void load_matrices(uint32_t (&r)[4], const void* row, MTL_SITE_PARAMETERS) {
  emulation::load_matrices<false>(r, row, {"ldmatrix", file, line});
}
inline void load_matrices_transposed(uint32_t (&r)[4], const void* row, MTL_SITE_PARAMETERS) {
  emulation::load_matrices<true>(r, row, {"ldmatrix.trans", file, line});
}
inline void copy_async_16(void* shared, const void* global, bool valid, MTL_SITE_PARAMETERS) {
  emulation::queue_copy(shared, global, 16, valid ? 16 : 0, {"cp.async", file, line});
}
inline void commit_copies() { emulation::commit_copies(); }
template <int groups_left>
void wait_for_copies() {
  emulation::wait_for_copies(groups_left);
}
inline void meet(int barrier, int threads, MTL_SITE_PARAMETERS) {
  emulation::wait_at_barrier(barrier, threads, {"bar.sync", file, line});
}
inline void announce(int barrier, int threads, MTL_SITE_PARAMETERS) {
  emulation::announce_at_barrier(barrier, threads, {"bar.arrive", file, line});
}
inline float fast_exp2(float x) { return x < -126.0f ? 0.0f : std::exp2(x); }

}  // namespace mtl::cuda

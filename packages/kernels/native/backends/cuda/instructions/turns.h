// Blocks of one launch that take turns: inline PTX with nvcc, the same effect under emulation, which lets
// blocks alternate at these functions (block.h there).
//
// A block may wait only for blocks that hold lower tickets: those run or have ended, so that one of them can
// always continue.
#pragma once

#if defined(MTL_CUDA_DEBUG)
#include <cstdio>
#endif

#include "backends/cuda/instructions/ptx.h"

#if defined(__CUDACC__)

namespace mtl::cuda {

// By one thread of a block: the number of blocks that have called it before.
MTL_PTX uint32_t take_ticket(uint32_t* counter) { return atomicAdd(counter, 1u); }

// Waits until the counter has reached `count`. What other blocks have stored before they added to it is then
// visible to this thread, and to those that it signals. Built with MTL_CUDA_DEBUG, a wait that does not end
// is printed and ends the kernel.
MTL_PTX void wait_for_count(const uint32_t* counter, uint32_t count) {
#if defined(MTL_CUDA_DEBUG)
  constexpr long long kLatestCycles = 1LL << 32;  // two seconds, a quarter of what waits for it have
  const long long started = clock64();
#endif
  for (;;) {
    uint32_t reached;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(reached) : "l"(counter) : "memory");
    if (reached >= count) return;
#if defined(MTL_CUDA_DEBUG)
    if (clock64() - started > kLatestCycles) {
      printf("a turn does not come: %u of %u, block (%u, %u), thread %u\n", reached, count, blockIdx.x, blockIdx.y, threadIdx.x);
      __trap();
    }
#endif
  }
}
// After this thread's stores, and those of threads that have signalled to it: a release is cumulative.
MTL_PTX void add_to_count(uint32_t* counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

// Loads sums that other blocks added before a wait: not from a cache of this multiprocessor.
MTL_PTX float4 load_four(const float4* from) {
  float4 four;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
               : "l"(from)
               : "memory");
  return four;
}

#if __CUDA_ARCH__ >= 900
// *to += values: four additions in memory, without a result to wait for. Denormal numbers become 0.
MTL_PTX void add_four(float4* to, const float (&values)[4]) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(values[0]), "f"(values[1]),
               "f"(values[2]), "f"(values[3])
               : "memory");
}
#endif

}  // namespace mtl::cuda

#else
#include "emulation/turns.h"
#endif

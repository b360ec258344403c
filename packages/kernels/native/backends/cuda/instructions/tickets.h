// Tickets that the blocks of one launch take: an atomic addition with nvcc, the same effect under emulation,
// which lets blocks alternate there (block.h there).
#pragma once

#include "backends/cuda/instructions/ptx.h"

#if defined(__CUDACC__)

namespace mtl::cuda {

// By one thread of a block: the number of tickets that have been taken before.
MTL_PTX uint32_t take_ticket(uint32_t* counter) { return atomicAdd(counter, 1u); }

}  // namespace mtl::cuda

#else
#include "emulation/tickets.h"
#endif

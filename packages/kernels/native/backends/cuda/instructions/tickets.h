// Tickets that the blocks of one launch take: an atomic addition with nvcc; under emulation the same effect,
// but a block that takes a ticket may let other blocks run first (the emulation's block.h).
#pragma once

#include "backends/cuda/instructions/ptx.h"

#if defined(__CUDACC__)

namespace mtl::cuda {

// Takes a ticket. Returns the number of tickets that were taken before. Called by one thread of a block.
MTL_PTX uint32_t take_ticket(uint32_t* counter) { return atomicAdd(counter, 1u); }

}  // namespace mtl::cuda

#else
#include "emulation/tickets.h"
#endif

// Tickets for the blocks of one launch: each block that requests a ticket gets the next number. With nvcc,
// this is an atomic addition. Emulation has the same effect, but may run other blocks before a block gets its
// ticket (see the emulation's block.h).
#pragma once

#include "backends/cuda/instructions/ptx.h"

#if defined(__CUDACC__)

namespace mtl::cuda {

// Takes a ticket. Returns how many tickets were taken before. Must be called by one thread of a block.
MTL_PTX uint32_t take_ticket(uint32_t* counter) { return atomicAdd(counter, 1u); }

}  // namespace mtl::cuda

#else
#include "emulation/tickets.h"
#endif

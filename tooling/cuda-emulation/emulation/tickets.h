// Emulates the function of backends/cuda/instructions/tickets.h in @mtl/kernels without a GPU. Only that
// header includes this file.
#pragma once

#include "backends/cuda/instructions/tickets.h"
#include "emulation/block.h"

namespace mtl::cuda {

inline uint32_t take_ticket(uint32_t* counter, MTL_SITE_PARAMETERS) {
  return emulation::take_ticket(counter, {"a ticket", file, line});
}

}  // namespace mtl::cuda

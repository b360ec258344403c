// The functions of backends/cuda/instructions/turns.h of @mtl/kernels, without a GPU. Included only by that
// header.
#pragma once

#include "backends/cuda/instructions/turns.h"
#include "emulation/block.h"

namespace mtl::cuda {

inline uint32_t take_ticket(uint32_t* counter, MTL_SITE_PARAMETERS) {
  return emulation::take_ticket(counter, {"a ticket", file, line});
}
inline void wait_for_count(const uint32_t* counter, uint32_t count, MTL_SITE_PARAMETERS) {
  emulation::wait_for_count(counter, count, {"a wait for other blocks", file, line});
}
inline void add_to_count(uint32_t* counter) { emulation::add_to_count(counter); }
inline float4 load_four(const float4* from) { return in_one_access<float4>(from); }
inline void add_four(float4* to, const float (&values)[4]) {
  const float4 before = in_one_access<float4>(to);
  in_one_access<float4>(to) = {before.x + values[0], before.y + values[1], before.z + values[2], before.w + values[3]};
}

}  // namespace mtl::cuda

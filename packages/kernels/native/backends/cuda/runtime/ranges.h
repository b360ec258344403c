// Ranges in the timelines of NVIDIA's profilers (NVTX) if MTL_NVTX is set. Otherwise the functions do
// nothing.
#pragma once

namespace mtl::cuda {

void push_range(const char* name);
void pop_range();

}  // namespace mtl::cuda

// Marks ranges in the timelines of NVIDIA's profilers (NVTX) if the environment variable MTL_NVTX is set.
// Otherwise, these functions do nothing.
#pragma once

namespace mtl::cuda {

void push_range(const char* name);
void pop_range();

}  // namespace mtl::cuda

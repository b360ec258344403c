// Ranges in the pictures of NVIDIA's profilers (NVTX), where MTL_NVTX is set; otherwise nothing happens.
#pragma once

namespace mtl::cuda {

void push_range(const char* name);
void pop_range();

}  // namespace mtl::cuda

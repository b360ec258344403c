// The kernels that the program has loaded with cudaFuncGetAttributes. A GPU loads any other kernel at its
// first launch, which may wait for the device. In the emulation, such a launch is an error once any kernel
// has been loaded.
#pragma once

namespace mtl::emulation {

void load(const void* kernel);
// Returns true if at least one kernel is loaded, but not `kernel`.
bool is_left_out(const void* kernel);

}  // namespace mtl::emulation

// The kernels that the program has loaded (cudaFuncGetAttributes). A GPU loads the others at their first
// launch, which may wait for the device; here that launch is an error once there are loaded ones.
#pragma once

namespace mtl::emulation {

void load(const void* kernel);
// Tells whether kernels are loaded, and this one is not.
bool is_left_out(const void* kernel);

}  // namespace mtl::emulation

// Loading of kernels to the device.
#pragma once

#include "backends/cuda/runtime/cuda_status.h"

namespace mtl::cuda {

// Loads all kernels of the library to the current device. Otherwise the driver would load each kernel at its
// first launch (CUDA programming guide, "Lazy Loading"), and loading may wait for the device. This could be a
// deadlock: an NCCL kernel on the device may be waiting for a message that this process has yet to send.
Status load_kernels();

}  // namespace mtl::cuda

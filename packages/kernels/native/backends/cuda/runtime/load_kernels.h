// Loading of kernels to the device.
#pragma once

#include "backends/cuda/runtime/cuda_status.h"

namespace mtl::cuda {

// Loads all kernels of the library to the current device. Otherwise the driver would load each kernel at its
// first launch (CUDA programming guide, "Lazy Loading"), which may wait for the device. An NCCL kernel on the
// device may wait for a message that this process has yet to send, and process and kernel would then wait
// forever.
Status load_kernels();

}  // namespace mtl::cuda

// Loading of kernels to the device.
#pragma once

#include "backends/cuda/runtime/cuda_status.h"

namespace mtl::cuda {

// Loads all of the library's kernels to the current device. Without this, the driver would load each kernel
// at its first launch (see "Lazy Loading" in the CUDA programming guide), and loading may wait for the
// device. This could cause a deadlock: an NCCL kernel on the device may be waiting for a message that this
// process has not yet sent.
Status load_kernels();

}  // namespace mtl::cuda

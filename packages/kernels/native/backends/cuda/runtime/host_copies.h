// Copies between host memory of any kind and the device, through pinned memory: the compute stream sees them
// in the order of the calls.
#pragma once

#include <cstddef>

#include "core/status.h"

namespace mtl::cuda {

// Returns once `source` has been read, without waiting for the device.
Status copy_from_host(void* destination, const void* source, size_t bytes);
// Waits for everything enqueued before it, and returns with the bytes in `destination`.
Status copy_to_host(void* destination, const void* source, size_t bytes);

}  // namespace mtl::cuda

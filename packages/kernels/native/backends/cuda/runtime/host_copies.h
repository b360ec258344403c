// Copies between any host memory and the device, through pinned memory, in the order of the calls as seen by
// the compute stream.
#pragma once

#include <cstddef>

#include "core/status.h"

namespace mtl::cuda {

// Returns once `source` has been read, without waiting for the device.
Status copy_from_host(void* destination, const void* source, size_t bytes);
// Waits for everything enqueued before, and returns with the bytes in `destination`.
Status copy_to_host(void* destination, const void* source, size_t bytes);

}  // namespace mtl::cuda

// Copies between any host memory and the device, through pinned memory. The compute stream sees the copies in
// the order of the calls.
#pragma once

#include <cstddef>

#include "core/status.h"

namespace mtl::cuda {

// Returns once `source` has been read, without waiting for the device.
Status copy_from_host(void* destination, const void* source, size_t bytes);
// Waits for all work enqueued before; `destination` has the bytes when the call returns.
Status copy_to_host(void* destination, const void* source, size_t bytes);

}  // namespace mtl::cuda

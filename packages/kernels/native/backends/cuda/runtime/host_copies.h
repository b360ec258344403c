// Copies between the device and any host memory, through pinned memory. The compute stream sees the copies in
// the order of the calls.
#pragma once

#include <cstddef>

#include "core/status.h"

namespace mtl::cuda {

// Returns as soon as `source` has been read, without waiting for the device.
Status copy_from_host(void* destination, const void* source, size_t bytes);
// Waits for all work that was enqueued before. When the call returns, `destination` contains the bytes.
Status copy_to_host(void* destination, const void* source, size_t bytes);

}  // namespace mtl::cuda

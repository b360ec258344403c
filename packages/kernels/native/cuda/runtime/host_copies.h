// Copies between host memory of any kind and the device, through pinned buffers, in order with the compute stream.
#pragma once

#include <cstddef>

#include "core/status.h"

namespace mtl::cuda {

// Returns once `source` has been read; the device gets the bytes later, in its turn.
Status copy_from_host(void* destination, const void* source, size_t bytes);
// Waits for everything enqueued before it, and returns with the bytes in `destination`.
Status copy_to_host(void* destination, const void* source, size_t bytes);

}  // namespace mtl::cuda

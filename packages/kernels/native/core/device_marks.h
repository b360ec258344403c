// Points in the work enqueued on a device, each with a copy to the host if one is wanted: the host enqueues
// more work before it waits for them, and so reads results without the device ever waiting for the host.
#pragma once

#include <cstddef>

#include "core/status.h"

namespace mtl {

struct MarkFunctions {
  // `source` is copied to the host up to the mark; null: nothing is. Its memory may be released at once.
  Status (*create)(const void* source, size_t bytes, void** mark);
  // Waits for the mark, and returns with the bytes in `destination`. MTL_INDEX if a kernel before the mark
  // has read an index out of range that was not reported yet; kernels after the mark are not considered.
  Status (*read)(void* mark, void* destination, size_t bytes);
  // Stores the device's time between two marks; waits for the later one.
  Status (*milliseconds)(void* mark, void* earlier, double* milliseconds);
  // Waits for the mark.
  void (*destroy)(void* mark);
};

}  // namespace mtl

// Marks: points in the work enqueued on a device, each with a copy to the host on request. The host enqueues
// further work before it waits for a mark, so that the device never waits for the host to read results.
#pragma once

#include <cstddef>

#include "core/status.h"

namespace mtl {

struct MarkFunctions {
  // Enqueues a mark. Before the mark, `bytes` bytes of device memory at `source` are copied to the host; with
  // null nothing is copied. The memory may be released as soon as the call returns.
  Status (*create)(const void* source, size_t bytes, void** mark);
  // Waits for the mark, and returns with the bytes in `destination`. MTL_INDEX if a kernel before the mark
  // has read an index out of range that was not reported yet; kernels after the mark are not considered.
  Status (*read)(void* mark, void* destination, size_t bytes);
  // Stores the device's time between two marks. Waits for the later mark.
  Status (*milliseconds)(void* mark, void* earlier, double* milliseconds);
  // Waits for the mark and destroys it.
  void (*destroy)(void* mark);
};

}  // namespace mtl

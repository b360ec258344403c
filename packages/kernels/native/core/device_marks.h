// Marks: points in the work that is enqueued on a device. On request, a mark copies data to the host. The
// host enqueues further work before it waits for a mark, so that the device never waits for the host to read
// results.
#pragma once

#include <cstddef>

#include "core/status.h"

namespace mtl {

struct MarkFunctions {
  // Enqueues a mark. Before the mark, `bytes` bytes of device memory at `source` are copied to the host; if
  // `source` is null, nothing is copied. The memory at `source` may be released as soon as the call returns.
  Status (*create)(const void* source, size_t bytes, void** mark);
  // Waits for the mark, and stores the copied bytes in `destination`. Returns MTL_INDEX if a kernel before
  // the mark has read an out-of-range index that has not yet been reported; kernels after the mark are not
  // considered.
  Status (*read)(void* mark, void* destination, size_t bytes);
  // Stores the time between two marks, as measured by the device. Waits for the later mark.
  Status (*milliseconds)(void* mark, void* earlier, double* milliseconds);
  // Waits for the mark and destroys it.
  void (*destroy)(void* mark);
};

}  // namespace mtl

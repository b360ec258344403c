// Work that is recorded once and enqueued as a whole from then on. What it reads and writes must lie where it
// did when it was recorded, so tensors that come and go while it is recorded have memory of their own, which
// no other tensor gets.
#pragma once

#include "core/status.h"

namespace mtl {

// Of one stream, the device's for kernels. What is refused because a graph is recorded has the code
// MTL_CAPTURE; the driver may fail to make a graph with a code of its own.
struct GraphFunctions {
  // Memory for graphs, taken from the device's as it is needed; given back by `destroy_memory`, which fails
  // while tensors have some.
  Status (*create_memory)(void** memory);
  Status (*destroy_memory)(void* memory);
  // The calling thread's allocations come from it from here on, until `leave_memory`.
  Status (*enter_memory)(void* memory);
  void (*leave_memory)();
  // From here on what the calling thread asks of the device is not done but recorded; what cannot be recorded
  // (copies from and to the host, waiting) fails.
  Status (*begin_capture)();
  // Ends it in any case. `graph` may be null: nothing is kept.
  Status (*end_capture)(void** graph);
  Status (*launch)(void* graph);
  void (*destroy)(void* graph);
};

}  // namespace mtl

// Work that is recorded once and afterwards enqueued as a whole. The addresses that it reads and writes are
// fixed at recording, so tensors created while recording have separate memory, which no other tensor gets.
#pragma once

#include "core/status.h"

namespace mtl {

// Graphs of one stream, the device's for kernels. Calls rejected because a graph is being recorded have the
// code MTL_CAPTURE; the driver may fail to create a graph with its own code.
struct GraphFunctions {
  // Memory for graphs, taken from the device's as needed; returned by `destroy_memory`, which fails while
  // tensors use it.
  Status (*create_memory)(void** memory);
  Status (*destroy_memory)(void* memory);
  // From here on the calling thread allocates from it, until `leave_memory`.
  Status (*enter_memory)(void* memory);
  void (*leave_memory)();
  // From here on the calling thread's device work is recorded instead of executed; work that cannot be
  // recorded (copies from and to the host, waiting) fails.
  Status (*begin_capture)();
  // Ends recording in any case. `graph` may be null: the recording is discarded.
  Status (*end_capture)(void** graph);
  Status (*launch)(void* graph);
  void (*destroy)(void* graph);
};

// The refusals of every device.
inline Status nested_capture() { return error_status("MTL_CAPTURE", "a graph is being recorded already"); }
inline Status no_capture() { return error_status("MTL_CAPTURE", "no graph is being recorded"); }
inline Status not_in_capture(const char* what) {
  return error_status("MTL_CAPTURE", "%s cannot be part of a graph, and one is being recorded", what);
}
constexpr char kCopyFromHost[] = "a copy from the host", kCopyToHost[] = "a copy to the host",
               kWaiting[] = "waiting for the device", kLaunchingGraph[] = "launching a graph";

}  // namespace mtl

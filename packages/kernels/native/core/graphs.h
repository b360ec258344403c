// Graphs: work that is recorded once and enqueued as a unit afterwards. The addresses that a graph reads and
// writes are fixed when it is recorded, so tensors that are created during recording have separate memory,
// which no later tensor reuses.
#pragma once

#include "core/status.h"

namespace mtl {

// Functions for recording graphs of the stream on which the device runs its kernels. If a call is rejected
// because a graph is being recorded, its code is MTL_CAPTURE. If the driver fails to create a graph, the
// error has the driver's code.
struct GraphFunctions {
  // Creates memory for graphs, which takes memory from the device as needed. `destroy_memory` returns it to
  // the device, or fails while tensors use it.
  Status (*create_memory)(void** memory);
  Status (*destroy_memory)(void* memory);
  // Makes the calling thread allocate from `memory` until it calls `leave_memory`.
  Status (*enter_memory)(void* memory);
  void (*leave_memory)();
  // Starts recording. The calling thread's device work is recorded instead of executed; work that cannot be
  // recorded (copies from and to the host, waiting) fails.
  Status (*begin_capture)();
  // Ends the recording, even if this function fails. If `graph` is null, the recording is discarded.
  Status (*end_capture)(void** graph);
  Status (*launch)(void* graph);
  void (*destroy)(void* graph);
};

// The errors for calls that are not allowed in the current state of recording. They are the same on every
// device.
inline Status nested_capture() { return error_status("MTL_CAPTURE", "a graph is being recorded already"); }
inline Status no_capture() { return error_status("MTL_CAPTURE", "no graph is being recorded"); }
inline Status not_in_capture(const char* what) {
  return error_status("MTL_CAPTURE", "%s cannot be part of a graph, and one is being recorded", what);
}
constexpr char kCopyFromHost[] = "a copy from the host", kCopyToHost[] = "a copy to the host",
               kWaiting[] = "waiting for the device", kLaunchingGraph[] = "launching a graph";

}  // namespace mtl

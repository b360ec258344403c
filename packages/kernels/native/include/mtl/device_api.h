// Streams, events and pinned memory of a device with queues, for other native addons: what @mtl/comm needs to
// order its communication behind and before the kernels of this package without a CUDA runtime of its own.
// Reached through MtlTensorApi::device_api (tensor_handle.h). Streams and events are the driver's CUstream
// and CUevent.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// In one stream work runs in the order in which it was enqueued; between streams, events order it. While a
// graph is recorded of the compute stream, the thread that records it is refused what orders streams, and
// other threads that enqueue in that stream are held up until it is recorded: that thread must not wait for
// them.
enum MtlStream {
  MTL_STREAM_COMPUTE = 0,        // every kernel of this package, and every copy that a tensor is read or written by
  MTL_STREAM_COPY = 1,           // for copies that overlap with kernels
  MTL_STREAM_COMMUNICATION = 2,  // of higher priority, for collectives
};

// Functions return 0, or -1 with a text in last_error().
struct MtlDeviceApi {
  int32_t device_index;     // as CUDA counts them in this process
  uint8_t device_uuid[16];  // the same in every process that uses this GPU, whatever its number there
  void* (*stream)(int32_t which);
  // An event without timing, ready to be recorded; destroyed when no thread or stream waits for it any more.
  int (*create_event)(void** event);
  int (*destroy_event)(void* event);
  // The event happens once everything enqueued in the stream so far is done.
  int (*record_event)(void* event, void* stream);
  // What is enqueued in the stream from now on waits for the event, on the device.
  int (*wait_event)(void* stream, void* event);
  // 1 when the event has happened, 0 when not yet.
  int (*query_event)(void* event);
  // Enqueues a copy between device memory, pinned host memory, or both.
  int (*copy_async)(void* destination, const void* source, uint64_t bytes, void* stream);
  // Host memory that the device reads and writes without a copy in between; reused after its release.
  int (*allocate_pinned)(uint64_t bytes, void** data);
  void (*release_pinned)(void* data);
  // The text of the calling thread's last failure; valid until its next one.
  const char* (*last_error)(void);
  // -1 while the calling thread records a graph, which `what` ("a collective") cannot be part of; else 0.
  int (*refuse_in_graph)(const char* what);
};

#ifdef __cplusplus
}
#endif

// Streams, events and pinned memory of a device that has queues, for other native addons. @mtl/comm uses them
// to order its communication relative to this package's kernels, without a second CUDA runtime.
// MtlTensorApi::device_api (tensor_handle.h) returns this interface. Streams and events are the driver's
// CUstream and CUevent.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Work in a stream runs in the order in which it was enqueued. Events order work across streams. While a
// graph of the compute stream is being recorded, calls that order streams fail on the recording thread. All
// other threads that enqueue in the compute stream block until the recording ends, so the recording thread
// must not wait for these threads.
enum MtlStream {
  MTL_STREAM_COMPUTE = 0,        // every kernel of this package, and every copy that reads or writes a tensor
  MTL_STREAM_COPY = 1,           // for copies that overlap with kernels
  MTL_STREAM_COMMUNICATION = 2,  // of higher priority, for collectives
};

// The functions return 0, or -1 after a failure, whose message last_error() returns.
struct MtlDeviceApi {
  int32_t device_index;     // CUDA's number in this process
  uint8_t device_uuid[16];  // the same in every process that uses this GPU, for any device number there
  void* (*stream)(int32_t which);
  // Creates an event without timing, ready to be recorded. `destroy_event` takes effect only when no thread
  // and no stream waits for the event.
  int (*create_event)(void** event);
  int (*destroy_event)(void* event);
  // Records the event in the stream. The event completes after everything that has been enqueued in the
  // stream so far.
  int (*record_event)(void* event, void* stream);
  // Makes all work that is enqueued in the stream from now on wait for the event. The wait happens on the
  // device.
  int (*wait_event)(void* stream, void* event);
  // Returns 1 if the event has completed, otherwise 0.
  int (*query_event)(void* event);
  // Enqueues a copy. Source and destination may be device memory or pinned host memory.
  int (*copy_async)(void* destination, const void* source, uint64_t bytes, void* stream);
  // Allocates host memory that the device can read and write directly. After its release, the memory is
  // reused.
  int (*allocate_pinned)(uint64_t bytes, void** data);
  void (*release_pinned)(void* data);
  // Returns the message of the calling thread's last failure. It is valid until the next failure.
  const char* (*last_error)(void);
  // Returns -1 while the calling thread records a graph, which cannot contain `what` (such as "a
  // collective"). Otherwise, returns 0.
  int (*refuse_in_graph)(const char* what);
  // Counts operations in which the device may wait for a different process. A `change` of 1 means that such
  // an operation starts and that the compute stream does not wait for it. A `change` of -1 means that the
  // operation has ended, or that the stream now waits for it. Between these calls, no memory is returned to
  // the driver, because this would wait for the device, and the device might be waiting for this process.
  void (*keep_memory)(int32_t change);
};

#ifdef __cplusplus
}
#endif

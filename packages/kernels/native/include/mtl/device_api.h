// Streams, events and pinned memory of a device with queues, for other native addons: @mtl/comm uses them to
// order its communication relative to the kernels of this package without its own CUDA runtime. Obtained
// through MtlTensorApi::device_api (tensor_handle.h). Streams and events are the driver's CUstream and
// CUevent.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Work in one stream runs in the order in which it was enqueued; events order work across streams. While a
// graph of the compute stream is recorded, calls that order streams fail on the recording thread, and other
// threads that enqueue in that stream block until the recording ends: the recording thread must not wait for
// them.
enum MtlStream {
  MTL_STREAM_COMPUTE = 0,        // every kernel of this package, and every copy that reads or writes a tensor
  MTL_STREAM_COPY = 1,           // for copies that overlap with kernels
  MTL_STREAM_COMMUNICATION = 2,  // of higher priority, for collectives
};

// Functions return 0, or -1 with a text in last_error().
struct MtlDeviceApi {
  int32_t device_index;     // CUDA's number in this process
  uint8_t device_uuid[16];  // the same in every process that uses this GPU, for any device number there
  void* (*stream)(int32_t which);
  // Creates an event without timing, ready to be recorded. `destroy_event` takes effect when no thread or
  // stream waits for the event any more.
  int (*create_event)(void** event);
  int (*destroy_event)(void* event);
  // Records the event, which completes once everything enqueued in the stream so far is done.
  int (*record_event)(void* event, void* stream);
  // Makes work enqueued in the stream from now on wait for the event, on the device.
  int (*wait_event)(void* stream, void* event);
  // Returns 1 if the event has completed, otherwise 0.
  int (*query_event)(void* event);
  // Enqueues a copy between device memory, pinned host memory, or both.
  int (*copy_async)(void* destination, const void* source, uint64_t bytes, void* stream);
  // Allocates host memory that the device reads and writes directly; the memory is reused after its release.
  int (*allocate_pinned)(uint64_t bytes, void** data);
  void (*release_pinned)(void* data);
  // Returns the message of the calling thread's last failure; valid until its next failure.
  const char* (*last_error)(void);
  // Returns -1 while the calling thread records a graph, which cannot contain `what` ("a collective");
  // otherwise 0.
  int (*refuse_in_graph)(const char* what);
  // Counts operations in which the device may wait for another process. With 1 an operation starts for which
  // the compute stream does not wait; with -1 the operation has ended, or the stream waits for it. In
  // between, no memory is returned to the driver: returning memory waits for the device, so this process
  // might wait for itself.
  void (*keep_memory)(int32_t change);
};

#ifdef __cplusplus
}
#endif

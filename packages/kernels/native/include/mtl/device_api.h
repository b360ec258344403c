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
  // An event without timing, ready to be recorded; destroyed when no thread or stream waits for it any more.
  int (*create_event)(void** event);
  int (*destroy_event)(void* event);
  // The event completes once everything enqueued in the stream so far is done.
  int (*record_event)(void* event, void* stream);
  // Work enqueued in the stream from now on waits for the event, on the device.
  int (*wait_event)(void* stream, void* event);
  // 1 if the event has completed, otherwise 0.
  int (*query_event)(void* event);
  // Enqueues a copy between device memory, pinned host memory, or both.
  int (*copy_async)(void* destination, const void* source, uint64_t bytes, void* stream);
  // Host memory that the device reads and writes directly; reused after its release.
  int (*allocate_pinned)(uint64_t bytes, void** data);
  void (*release_pinned)(void* data);
  // The message of the calling thread's last failure; valid until its next one.
  const char* (*last_error)(void);
  // -1 while the calling thread records a graph, which cannot contain `what` ("a collective"); else 0.
  int (*refuse_in_graph)(const char* what);
  // 1: an operation starts in which the device may wait for another process, and for which the compute stream
  // does not wait; -1: the operation has ended, or the stream waits for it. In between, no memory is returned
  // to the driver: returning memory waits for the device, so this process might wait for itself.
  void (*keep_memory)(int32_t change);
};

#ifdef __cplusplus
}
#endif

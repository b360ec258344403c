#include "backends/cuda/runtime/device_api.h"

#include <cstring>
#include <string>

#include "backends/cuda/runtime/device.h"
#include "backends/cuda/runtime/graphs.h"

namespace mtl::cuda {
namespace {

thread_local std::string failure;

int result_of(Status status) {
  if (status.ok()) return 0;
  failure = status.message == nullptr ? status.code : status.message;
  discard(status);
  return -1;
}

// Makes the device current and then runs a call to the CUDA runtime.
template <typename Call>
int on_device(const char* what, const Call& call) {
  const Status status = use_device();
  return result_of(status.ok() ? cuda_status(call(), what) : status);
}

// Runs a call to the CUDA runtime that enqueues work in a stream. Only the compute stream can be part of a
// graph. The ranks' engines have threads that enqueue work in the compute stream at any time. Their work must
// not become part of a graph, so they wait here until no graph is being recorded.
template <typename Call>
int in_order(const char* what, void* stream, const Call& call) {
  const Status status = refuse_while_capturing(what);
  if (!status.ok()) return result_of(status);
  std::unique_lock<std::mutex> outside_of_graphs;
  if (stream == compute_stream()) outside_of_graphs = between_graphs();
  return on_device(what, call);
}

void* stream(int32_t which) {
  const bool is_known = which >= MTL_STREAM_COMPUTE && which <= MTL_STREAM_COMMUNICATION;
  return is_known ? stream_of(static_cast<MtlStream>(which)) : nullptr;
}

int create_event(void** event) {
  return on_device("cudaEventCreate", [&] {
    return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), cudaEventDisableTiming);
  });
}

int destroy_event(void* event) {
  return on_device("cudaEventDestroy", [&] { return cudaEventDestroy(static_cast<cudaEvent_t>(event)); });
}

int record_event(void* event, void* stream) {
  return in_order("cudaEventRecord", stream, [&] {
    return cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream));
  });
}

int wait_event(void* stream, void* event) {
  return in_order("cudaStreamWaitEvent", stream, [&] {
    return cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event), 0);
  });
}

int query_event(void* event) {
  bool is_pending = false;
  const int result = on_device("cudaEventQuery", [&] {
    const cudaError_t error = cudaEventQuery(static_cast<cudaEvent_t>(event));
    is_pending = error == cudaErrorNotReady;
    if (is_pending) cudaGetLastError();  // the error is cleared, so that the next call does not report it
    return is_pending ? cudaSuccess : error;
  });
  if (result != 0) return -1;
  return is_pending ? 0 : 1;
}

int copy_async(void* destination, const void* source, uint64_t bytes, void* stream) {
  if (bytes == 0) return 0;
  return in_order("cudaMemcpyAsync", stream, [&] {
    return cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream));
  });
}

int allocate_pinned(uint64_t bytes, void** data) { return result_of(pinned_memory().allocate(bytes, data)); }
void release_pinned(void* data) { pinned_memory().release(data); }
const char* last_error() { return failure.c_str(); }
int refuse_in_graph(const char* what) { return result_of(refuse_while_capturing(what)); }

}  // namespace

const MtlDeviceApi* device_api() {
  static const MtlDeviceApi api = [] {
    MtlDeviceApi made = {device_index(), {},         stream,          create_event,   destroy_event, record_event, wait_event,
                         query_event,    copy_async, allocate_pinned, release_pinned, last_error,     refuse_in_graph,
                         keep_device_memory};
    std::memcpy(made.device_uuid, device_uuid(), sizeof made.device_uuid);
    return made;
  }();
  return &api;
}

}  // namespace mtl::cuda

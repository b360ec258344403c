#include "emulation/runtime.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "emulation/block.h"
#include "emulation/counts.h"
#include "emulation/device_memory.h"
#include "emulation/encode_tiled.h"
#include "emulation/loaded_kernels.h"
#include "emulation/pending_work.h"
#include "emulation/stream.h"

struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;  // shared with pending launches
};

namespace {

using mtl::emulation::count;
using mtl::emulation::enqueue;
using mtl::emulation::Owner;
using mtl::emulation::owner_of;

constexpr int kMaxStreams = 64;
CUstream_st streams[kMaxStreams];
int num_streams = 0;
thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;
thread_local char mark_of_thread;  // its address identifies the thread

// The thread that captures a stream (null if none does), and the mode of the capture, which determines the
// threads that the capture restricts.
struct Capture {
  std::atomic<const void*> thread{nullptr};
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
};
Capture captures[kMaxStreams];

// Returns true if the stream (null: any stream) is being captured. In this case, the capture becomes invalid.
bool breaks_capture(cudaStream_t stream = nullptr) {
  bool found = false;
  for (CUstream_st& each : streams) {
    if (each.captured == nullptr || (stream != nullptr && &each != stream)) continue;
    each.is_invalid = found = true;
  }
  return found;
}

// Returns true if this thread must not make a call that may wait for the device or change data that a graph
// uses. Such calls are forbidden while this thread captures, or while a different thread captures in a mode
// that forbids them, unless this thread permits them (see cudaThreadExchangeStreamCaptureMode). Captures that
// forbid the call become invalid.
bool is_unsafe() {
  if (mode_of_thread == cudaStreamCaptureModeRelaxed) return false;
  bool found = false;
  for (int index = 0; index < kMaxStreams; ++index) {
    const void* const thread = captures[index].thread.load();
    if (thread == nullptr) continue;
    const cudaStreamCaptureMode mode = captures[index].mode;
    const bool is_concerned = thread == &mark_of_thread ? mode != cudaStreamCaptureModeRelaxed
                                                        : mode == cudaStreamCaptureModeGlobal && mode_of_thread == mode;
    if (is_concerned) streams[index].is_invalid = found = true;
  }
  return found;
}

int num_devices() {
  const char* const asked = std::getenv("MTL_EMULATED_DEVICES");
  return asked == nullptr ? 1 : std::atoi(asked);
}
bool is_device(int device) { return device >= 0 && device < num_devices(); }

bool is_idle() {
  static const bool is_set = std::getenv("MTL_EMULATION_IDLE") != nullptr;
  return is_set;
}

// The error that this thread's next cudaGetLastError returns. Every failed call sets it, even if the caller
// has read the call's status. If no code reads it, the next kernel launch returns it as its own error.
thread_local cudaError_t last_error = cudaSuccess;
cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t allocate(void** data, size_t bytes, void* (*take)(size_t bytes, bool is_written)) {
  count(mtl::emulation::kMemoryCalls);
  if (is_unsafe()) return noted(cudaErrorStreamCaptureUnsupported);
  *data = take(bytes, !is_idle());
  return noted(*data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

// Waits for pending work and then releases memory, as a GPU's driver does.
cudaError_t give_back(void* data) {
  count(mtl::emulation::kMemoryCalls);
  if (is_unsafe()) return noted(cudaErrorStreamCaptureUnsupported);
  const cudaError_t error = mtl::emulation::finish(nullptr);
  const bool is_known = data == nullptr || mtl::emulation::give_memory_back(data);
  return noted(is_known ? error : cudaErrorInvalidValue);
}

// Waits for a stream, or for all streams if it is null.
cudaError_t synchronize(cudaStream_t stream = nullptr) {
  count(mtl::emulation::kSynchronizations);
  return noted(breaks_capture(stream) ? cudaErrorStreamCaptureUnsupported : mtl::emulation::finish(stream));
}

}  // namespace

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  *attributes = {};
  mtl::emulation::load(kernel);
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorInvalidDeviceFunction:
      return "cudaErrorInvalidDeviceFunction: the kernel was not loaded when the device was opened";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    default:
      return error == cudaSuccess ? "cudaSuccess" : "an error of the emulation";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure ? mtl::emulation::error() : cudaGetErrorName(error);
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { return *count = num_devices(), cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return noted(cudaErrorInvalidDevice);
  *properties = {};
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  std::snprintf(properties->name, sizeof properties->name, "emulation on the host");
  properties->totalGlobalMem = size_t{1} << 30;
  properties->major = 9;
  properties->multiProcessorCount = 3;  // few, so that kernels whose blocks share rows give each block several rows
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  *value = attribute == cudaDevAttrComputeCapabilityMajor   ? properties.major
           : attribute == cudaDevAttrComputeCapabilityMinor ? properties.minor
                                                            : properties.multiProcessorCount;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool known = std::strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
  *function = known ? reinterpret_cast<void*>(&mtl::emulation::encode_tiled) : nullptr;
  *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) { return *lowest = 0, *highest = -5, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return noted(is_device(device) ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaDeviceSynchronize() { return synchronize(); }

cudaError_t cudaMalloc(void** data, size_t bytes) { return allocate(data, bytes, mtl::emulation::take_device_memory); }
cudaError_t cudaFree(void* data) { return give_back(data); }
cudaError_t cudaMallocHost(void** data, size_t bytes) { return allocate(data, bytes, mtl::emulation::take_pinned_memory); }
cudaError_t cudaFreeHost(void* data) { return give_back(data); }

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  return enqueue(stream, [=] {
    if (bytes > 0 && !is_idle()) std::memset(data, value, bytes);
    return cudaSuccess;
  });
}

namespace {

// Returns true if a driver accepts a copy of this kind between these addresses.
bool is_copy_possible(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind) {
  const bool to_device = owner_of(destination, bytes) == Owner::kDevice, from_device = owner_of(source, bytes) == Owner::kDevice;
  const auto *to = static_cast<const char*>(destination), *from = static_cast<const char*>(source);
  if (to < from + bytes && from < to + bytes) return false;  // overlap is undefined on a GPU; here always an error
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    default:
      return true;
  }
}

}  // namespace

cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (kind == cudaMemcpyHostToDevice) count(mtl::emulation::kCopiesToDevice);
  if (kind == cudaMemcpyDeviceToHost) count(mtl::emulation::kCopiesToHost);
  if (bytes == 0) return cudaSuccess;
  if (!is_copy_possible(destination, source, bytes, kind)) return noted(cudaErrorInvalidValue);
  const auto copy = [=] { return std::memmove(destination, source, bytes), cudaSuccess; };
  const bool from_pageable = owner_of(source, bytes) == Owner::kPageable;
  const bool to_pageable = owner_of(destination, bytes) == Owner::kPageable;
  if (!from_pageable && !to_pageable) return noted(enqueue(stream, copy));
  // for pageable memory, a graph would use the content that the memory has at the launch, and not the content
  // at this call
  if (stream != nullptr && breaks_capture(stream)) return noted(cudaErrorStreamCaptureUnsupported);
  if (to_pageable) {
    const cudaError_t error = enqueue(stream, copy);
    return noted(error == cudaSuccess ? mtl::emulation::finish(stream) : error);
  }
  // the driver copies pageable memory into its own memory before the call returns
  const auto* const first = static_cast<const char*>(source);
  return noted(enqueue(stream, [destination, taken = std::vector<char>(first, first + bytes)] {
    return std::memcpy(destination, taken.data(), taken.size()), cudaSuccess;
  }));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  if (num_streams == kMaxStreams) return cudaErrorInvalidValue;
  *stream = &streams[num_streams++];
  (*stream)->on_enqueue = [] { count(mtl::emulation::kEnqueued); };
  (*stream)->put_off = mtl::emulation::put_off;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return synchronize(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event == nullptr) return noted(cudaErrorInvalidValue);
  // the emulation completes events outside of the graph, because it does not support events across streams in
  // one capture
  if (stream != nullptr && breaks_capture(stream)) return noted(cudaErrorStreamCaptureIsolation);
  return mtl::emulation::wait_for(stream, event), cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return *event = mtl::emulation::create_event((flags & cudaEventDisableTiming) == 0), cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return mtl::emulation::destroy_event(event), cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event == nullptr) return noted(cudaErrorInvalidValue);
  if (stream != nullptr && breaks_capture(stream)) return noted(cudaErrorStreamCaptureUnsupported);
  return mtl::emulation::record(event, stream), cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event == nullptr) return noted(cudaErrorInvalidValue);
  return noted(is_unsafe() ? cudaErrorStreamCaptureUnsupported : mtl::emulation::query_event(event));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return noted(cudaErrorInvalidValue);
  count(mtl::emulation::kSynchronizations);
  return noted(is_unsafe() ? cudaErrorStreamCaptureUnsupported : mtl::emulation::finish_event(event));
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (start == nullptr || end == nullptr) return noted(cudaErrorInvalidValue);
  return noted(mtl::emulation::elapsed(milliseconds, start, end));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr) return cudaErrorStreamCaptureUnsupported;
  if (stream->captured != nullptr) return noted(cudaErrorIllegalState);
  stream->captured = new CUgraph_st();
  stream->is_invalid = false;
  Capture& capture = captures[stream - streams];
  capture.mode = mode;
  capture.thread = &mark_of_thread;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (stream == nullptr || stream->captured == nullptr) return cudaErrorIllegalState;
  *graph = stream->captured;
  captures[stream - streams].thread = nullptr;
  stream->captured = nullptr;
  if (!stream->is_invalid) return cudaSuccess;
  delete *graph;
  *graph = nullptr;
  return noted(cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return std::swap(*mode, mode_of_thread), cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  return *executable = new CUgraphExec_st{std::make_shared<const CUgraph_st>(*graph)}, cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  count(mtl::emulation::kGraphLaunches);
  return noted(enqueue(stream, [graph = executable->graph] {
    for (const auto& node : graph->nodes) {
      const cudaError_t error = node();
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  }));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return delete executable, cudaSuccess; }

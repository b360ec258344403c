#include "cuda/emulation/runtime.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/emulation/block.h"
#include "cuda/emulation/counts.h"
#include "cuda/emulation/encode_tiled.h"
#include "cuda/emulation/stream.h"

struct CUgraphExec_st {
  CUgraph_st graph;
};

namespace {

using mtl::emulation::count;
using mtl::emulation::enqueue;

constexpr int kMaxStreams = 64;
CUstream_st streams[kMaxStreams];
int num_streams = 0;
thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;
thread_local char mark_of_thread;  // its address is the thread's name

// Of each stream: who captures it (null: nobody), and which threads that concerns.
struct Capture {
  std::atomic<const void*> thread{nullptr};
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
};
Capture captures[kMaxStreams];

// Whether the stream, or any (null), is captured; the capture is invalid from here on.
bool breaks_capture(cudaStream_t stream = nullptr) {
  bool found = false;
  for (CUstream_st& each : streams) {
    if (each.captured == nullptr || (stream != nullptr && &each != stream)) continue;
    each.is_invalid = found = true;
  }
  return found;
}

// Calls that may wait for the device or change what a graph would find: not while this thread captures, or
// another one that wants nobody to make them, unless it says that it knows better
// (cudaThreadExchangeStreamCaptureMode). They spoil these captures.
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

cudaError_t allocate(void** data, size_t bytes) {
  count(mtl::emulation::kMemoryCalls);
  if (is_unsafe()) return cudaErrorStreamCaptureUnsupported;
  // as aligned as a card's memory; what was never written is NaN, as in a block's shared memory
  *data = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  if (!is_idle()) std::memset(*data, 0xff, bytes);
  return cudaSuccess;
}

cudaError_t release(void* data) {
  std::free(data);
  return cudaSuccess;
}

cudaError_t give_back(void* data) {
  count(mtl::emulation::kMemoryCalls);
  if (is_unsafe()) return cudaErrorStreamCaptureUnsupported;
  return release(data);
}

// Null: all streams.
cudaError_t synchronize(cudaStream_t stream = nullptr) {
  count(mtl::emulation::kSynchronizations);
  return breaks_capture(stream) ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
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

cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { return *count = num_devices(), cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return cudaErrorInvalidDevice;
  *properties = {};
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  std::snprintf(properties->name, sizeof properties->name, "emulation on the host");
  properties->totalGlobalMem = size_t{1} << 30;
  properties->major = 9;
  properties->multiProcessorCount = 3;  // few: kernels whose blocks share out rows take several each
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
cudaError_t cudaSetDevice(int device) { return is_device(device) ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaDeviceSynchronize() { return synchronize(); }

cudaError_t cudaMalloc(void** data, size_t bytes) { return allocate(data, bytes); }
cudaError_t cudaFree(void* data) { return give_back(data); }
cudaError_t cudaMallocHost(void** data, size_t bytes) { return allocate(data, bytes); }
cudaError_t cudaFreeHost(void* data) { return give_back(data); }

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  return enqueue(stream, [=] {
    if (bytes > 0 && !is_idle()) std::memset(data, value, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (kind == cudaMemcpyHostToDevice) count(mtl::emulation::kCopiesToDevice);
  if (kind == cudaMemcpyDeviceToHost) count(mtl::emulation::kCopiesToHost);
  return enqueue(stream, [=] {
    if (bytes > 0) std::memmove(destination, source, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  if (num_streams == kMaxStreams) return cudaErrorInvalidValue;
  *stream = &streams[num_streams++];
  (*stream)->on_enqueue = [] { count(mtl::emulation::kEnqueued); };
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return synchronize(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event == nullptr) return cudaErrorInvalidValue;
  // events happen outside of the graph here: those of other streams in one capture are not emulated
  return stream != nullptr && breaks_capture(stream) ? cudaErrorStreamCaptureIsolation : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return *event = static_cast<cudaEvent_t>(std::malloc(1)), cudaSuccess;  // freed by destroy: a leak shows
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return release(event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event == nullptr) return cudaErrorInvalidValue;
  return stream != nullptr && breaks_capture(stream) ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event == nullptr) return cudaErrorInvalidValue;
  return is_unsafe() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return cudaErrorInvalidValue;
  count(mtl::emulation::kSynchronizations);
  return is_unsafe() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr) return cudaErrorStreamCaptureUnsupported;
  if (stream->captured != nullptr) return cudaErrorIllegalState;
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
  return cudaErrorStreamCaptureInvalidated;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return std::swap(*mode, mode_of_thread), cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  return *executable = new CUgraphExec_st{*graph}, cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  count(mtl::emulation::kGraphLaunches);
  return enqueue(stream, [executable] {
    for (const auto& node : executable->graph.nodes) {
      const cudaError_t error = node();
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return delete executable, cudaSuccess; }

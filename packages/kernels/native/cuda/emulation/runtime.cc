#include "cuda/emulation/runtime.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/emulation/block.h"
#include "cuda/emulation/counts.h"
#include "cuda/emulation/encode_tiled.h"

namespace {

using mtl::emulation::count;

// Streams and events carry nothing: any address that is not null will do.
char stream_markers[64];
int num_streams = 0;

int num_devices() {
  const char* const asked = std::getenv("MTL_EMULATED_DEVICES");
  return asked == nullptr ? 1 : std::atoi(asked);
}
bool is_device(int device) { return device >= 0 && device < num_devices(); }

cudaError_t allocate(void** data, size_t bytes) {
  count(mtl::emulation::kMemoryCalls);
  // as aligned as a card's memory; what was never written is NaN, as in a block's shared memory
  *data = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*data, 0xff, bytes);
  return cudaSuccess;
}

cudaError_t release(void* data) {
  std::free(data);
  return cudaSuccess;
}

cudaError_t give_back(void* data) {
  count(mtl::emulation::kMemoryCalls);
  return release(data);
}

cudaError_t synchronize() {
  count(mtl::emulation::kSynchronizations);
  return cudaSuccess;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
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

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t) {
  if (bytes > 0) std::memset(data, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  if (kind == cudaMemcpyHostToDevice) count(mtl::emulation::kCopiesToDevice);
  if (kind == cudaMemcpyDeviceToHost) count(mtl::emulation::kCopiesToHost);
  if (bytes > 0) std::memmove(destination, source, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  if (num_streams == static_cast<int>(sizeof stream_markers)) return cudaErrorInvalidValue;
  *stream = reinterpret_cast<cudaStream_t>(&stream_markers[num_streams++]);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return synchronize(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t event, unsigned) {
  return event == nullptr ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return *event = static_cast<cudaEvent_t>(std::malloc(1)), cudaSuccess;  // freed by destroy: a leak shows
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return release(event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  return event == nullptr ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return event == nullptr ? cudaErrorInvalidValue : cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return event == nullptr ? cudaErrorInvalidValue : synchronize(); }

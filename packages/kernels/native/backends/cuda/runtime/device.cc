#include "backends/cuda/runtime/device.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <utility>

#include "backends/cuda/runtime/load_kernels.h"

namespace mtl::cuda {
namespace {

struct Device {
  int index = -1;
  int num_multiprocessors = 0, compute_capability = 0;
  unsigned char uuid[16] = {};
  cudaStream_t streams[3] = {};
};

Device opened;

std::atomic<int> num_reasons_to_keep{0};

// While an object of this class exists, the thread may request memory from the driver although a graph is
// being recorded. A graph has fixed addresses, but its memory may be allocated during the recording. The
// arena may return memory to the driver meanwhile, but never the graph's own segments, which are in use. The
// documentation of cudaThreadExchangeStreamCaptureMode lists cudaMalloc and cudaFree among the unsafe calls,
// which are allowed in relaxed mode. Calls that always conflict with a capture (querying the state of its
// stream or its events) stay forbidden. NCCL allocates and frees memory in captures in the same way.
class OutsideOfCapture {
 public:
  OutsideOfCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideOfCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideOfCapture(const OutsideOfCapture&) = delete;
  OutsideOfCapture& operator=(const OutsideOfCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

Status reserve_device_memory(size_t bytes, void** data) {
  MTL_RETURN_IF_ERROR(use_device());
  const OutsideOfCapture outside;
  return cuda_status(cudaMalloc(data, bytes), "cudaMalloc");
}

// Releases device memory. First waits for the device, because enqueued work may still use the memory. If the
// wait reports an error in enqueued work, the error is ignored here, because the next call that checks for
// errors also reports it.
void give_device_memory_back(void* data) {
  const OutsideOfCapture outside;
  discard(cuda_status(cudaFree(data), "cudaFree"));
}

Status reserve_pinned_memory(size_t bytes, void** data) {
  MTL_RETURN_IF_ERROR(use_device());
  return cuda_status(cudaMallocHost(data, bytes), "cudaMallocHost");
}

void give_pinned_memory_back(void* data) { cudaFreeHost(data); }

Status properties_of(int device, CudaDeviceProperties* properties) {
  cudaDeviceProp found;
  MTL_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&found, device));
  std::snprintf(properties->name, sizeof properties->name, "%.*s", static_cast<int>(sizeof properties->name) - 1,
                found.name);
  properties->compute_capability = found.major * 10 + found.minor;
  properties->num_multiprocessors = found.multiProcessorCount;
  properties->memory_bytes = found.totalGlobalMem;
  return ok_status();
}

}  // namespace

Status probe_devices(CudaProbe* probe) {
  *probe = {};
  MTL_RETURN_IF_CUDA_ERROR(cudaRuntimeGetVersion(&probe->runtime_version));
  MTL_RETURN_IF_CUDA_ERROR(cudaDriverGetVersion(&probe->driver_version));  // 0 if there is no driver
  if (probe->driver_version == 0) return ok_status();
  const cudaError_t error = cudaGetDeviceCount(&probe->num_devices);
  if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) {
    cudaGetLastError();
    probe->num_devices = 0;
    return ok_status();
  }
  MTL_RETURN_IF_ERROR(cuda_status(error, "cudaGetDeviceCount"));
  for (int device = 0; device < probe->num_devices && device < kMaxCudaDevices; ++device) {
    MTL_RETURN_IF_ERROR(properties_of(device, &probe->devices[device]));
  }
  return ok_status();
}

Status open_device(int device_index) {
  Device device;
  MTL_RETURN_IF_CUDA_ERROR(cudaSetDevice(device_index));
  MTL_RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&device.num_multiprocessors, cudaDevAttrMultiProcessorCount, device_index));
  cudaDeviceProp properties;
  MTL_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, device_index));
  device.compute_capability = 10 * properties.major + properties.minor;
  std::memcpy(device.uuid, properties.uuid.bytes, sizeof device.uuid);
  int lowest = 0, highest = 0;
  MTL_RETURN_IF_CUDA_ERROR(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  for (const int which : {MTL_STREAM_COMPUTE, MTL_STREAM_COPY, MTL_STREAM_COMMUNICATION}) {
    // collectives have a higher priority, so that their few blocks do not queue behind a matmul that fills
    // the device
    const int priority = which == MTL_STREAM_COMMUNICATION ? highest : lowest;
    MTL_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithPriority(&device.streams[which], cudaStreamNonBlocking, priority));
  }
  MTL_RETURN_IF_ERROR(load_kernels());
  device.index = device_index;
  opened = device;
  return ok_status();
}

Status use_device() {
  static thread_local int current = -1;
  if (current == opened.index) return ok_status();
  MTL_RETURN_IF_CUDA_ERROR(cudaSetDevice(opened.index));
  current = opened.index;
  return ok_status();
}

int device_index() { return opened.index; }
const unsigned char* device_uuid() { return opened.uuid; }
GpuProperties gpu_properties() { return {opened.num_multiprocessors, opened.compute_capability}; }
int compute_capability() { return opened.compute_capability; }
cudaStream_t stream_of(MtlStream which) { return opened.streams[which]; }

DeviceMemory& device_memory() {
  static DeviceMemory* memory = [] {
    MemoryArena::Source source;
    source.reserve = reserve_device_memory;
    source.give_back = give_device_memory_back;
    source.may_give_back = [] { return num_reasons_to_keep == 0; };
    return new DeviceMemory(std::move(source));
  }();
  return *memory;
}

void keep_device_memory(int32_t change) { num_reasons_to_keep += change; }

Status allocate_device_memory(size_t bytes, void** data) { return device_memory().allocate(bytes, data); }
void release_device_memory(void* data) { device_memory().release(data); }

MemoryArena& pinned_memory() {
  static MemoryArena* arena = new MemoryArena({reserve_pinned_memory, give_pinned_memory_back});
  return *arena;
}

}  // namespace mtl::cuda

#include "backends/cuda/loader/cuda_loader.h"

#include <atomic>

#include "core/mutex.h"
#include "platforms/platform.h"

namespace mtl {
namespace {

Mutex mutex;
std::atomic<const CudaLibrary*> opened_library{nullptr};
CudaLibraryInformation opened = {};
std::atomic<const Backend*> backend{nullptr};
std::atomic<const MtlDeviceApi*> device_api{nullptr};

}  // namespace

Status load_cuda_library(const char* path, const CudaLibrary** library) {
  void* address = nullptr;
  MTL_RETURN_IF_ERROR(find_in_library(path, "mtl_cuda_library", &address));
  const auto entry = reinterpret_cast<const CudaLibrary* (*)()>(address);
  const CudaLibrary* const found = entry();
  if (found->abi_version != kCudaLibraryAbiVersion || found->backend_abi_version != kBackendAbiVersion) {
    return error_status("MTL_CUDA_ABI", "%s speaks version %d (backend %d), the addon version %d (backend %d)", path,
                        found->abi_version, found->backend_abi_version, kCudaLibraryAbiVersion, kBackendAbiVersion);
  }
  *library = found;
  return ok_status();
}

Status open_cuda(const CudaLibrary& library, const CudaOptions& options, CudaLibraryInformation* information) {
  const MutexLock lock(mutex);
  if (backend == nullptr) {
    const Backend* new_backend = nullptr;
    const MtlDeviceApi* new_device_api = nullptr;
    MTL_RETURN_IF_ERROR(library.open(options, &opened, &new_backend, &new_device_api));
    opened_library = &library;
    device_api = new_device_api;
    backend = new_backend;
  } else if (opened_library != &library) {
    return error_status("MTL_CUDA_LIBRARY", "another CUDA library is open in this process already");
  } else if (opened.device_index != options.device_index) {
    return error_status("MTL_CUDA_DEVICE", "device %d is asked for, but this process has device %d: one process, one GPU",
                        options.device_index, opened.device_index);
  }
  *information = opened;
  return ok_status();
}

const Backend* cuda_backend() { return backend; }
const MtlDeviceApi* cuda_device_api() { return device_api; }
const CudaLibrary* opened_cuda_library() { return opened_library; }

GpuProperties cuda_gpu_properties() {
  const MutexLock lock(mutex);
  if (backend == nullptr || opened.device_index >= kMaxCudaDevices) return {132, 90};
  const CudaDeviceProperties& gpu = opened.probe.devices[opened.device_index];
  return {gpu.num_multiprocessors, gpu.compute_capability};
}

}  // namespace mtl

// The table that the library exports, and the backend of device `cuda`.
#include <cstdio>

#include "backends/cuda/cublaslt/cublaslt.h"
#include "backends/cuda/cuda_library.h"
#include "backends/cuda/runtime/device.h"
#include "backends/cuda/runtime/device_api.h"
#include "backends/cuda/runtime/device_marks.h"
#include "backends/cuda/runtime/graphs.h"
#include "backends/cuda/runtime/host_copies.h"
#include "backends/cuda/runtime/index_report.h"
#include "backends/cuda/runtime/op_table.h"
#include "backends/cuda/runtime/ranges.h"

namespace mtl::cuda {
namespace {


Status fill(void* data, uint8_t value, size_t bytes) {
  MTL_RETURN_IF_ERROR(use_device());
  return cuda_status(cudaMemsetAsync(data, value, bytes, compute_stream()), "cudaMemsetAsync");
}

Status copy_within(void* destination, const void* source, size_t bytes) {
  MTL_RETURN_IF_ERROR(use_device());
  return cuda_status(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToDevice, compute_stream()),
                     "cudaMemcpyAsync");
}

MemoryStatistics memory_statistics() { return device_memory().arena().statistics(); }
void reset_peak_memory() { device_memory().arena().reset_peak(); }
void trim_memory() { device_memory().arena().trim(); }
void limit_memory(uint64_t bytes) { device_memory().arena().set_limit(bytes); }

Status synchronize() {
  MTL_RETURN_IF_ERROR(refuse_while_capturing(kWaiting));
  MTL_RETURN_IF_ERROR(use_device());
  MTL_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  return take_index_report();
}

const Backend backend = {kBackendAbiVersion,
                         DeviceKind::kCuda,
                         "cuda",
                         allocate_device_memory,
                         release_device_memory,
                         fill,
                         copy_from_host,
                         copy_to_host,
                         copy_within,
                         memory_statistics,
                         reset_peak_memory,
                         trim_memory,
                         limit_memory,
                         synchronize,
                         find_kernel,
                         push_range,
                         pop_range,
                         graph_functions(),
                         mark_functions()};

Status check_device(const CudaProbe& probe, int device) {
  if (probe.driver_version == 0) {
    return error_status("MTL_CUDA_DRIVER", "there is no NVIDIA driver (libcuda.so.1) on this machine");
  }
  if (probe.driver_version / 1000 < probe.runtime_version / 1000) {
    return error_status("MTL_CUDA_DRIVER", "the driver serves CUDA %d.%d, this library needs %d.0 at least",
                        probe.driver_version / 1000, probe.driver_version % 1000 / 10, probe.runtime_version / 1000);
  }
  if (device < 0 || device >= probe.num_devices) {
    return error_status("MTL_CUDA_DEVICE", "there is no CUDA device %d: the driver shows %d", device, probe.num_devices);
  }
  if (device < kMaxCudaDevices && probe.devices[device].compute_capability < 80) {
    return error_status("MTL_CUDA_DEVICE", "device %d, %s, has compute capability %d.%d, expected 8.0 or more", device,
                        probe.devices[device].name, probe.devices[device].compute_capability / 10,
                        probe.devices[device].compute_capability % 10);
  }
  return ok_status();
}

Status open(const CudaOptions& options, CudaLibraryInformation* information, const Backend** opened_backend,
            const MtlDeviceApi** opened_device_api) {
  MTL_RETURN_IF_ERROR(probe_devices(&information->probe));
  MTL_RETURN_IF_ERROR(check_device(information->probe, options.device_index));
  // cuBLASLt is opened before the device, because it may be missing, and an open device cannot be closed
  MTL_RETURN_IF_ERROR(load_cublaslt(options.cublaslt_candidates, options.allow_tf32));
  MTL_RETURN_IF_ERROR(open_device(options.device_index));
  MTL_RETURN_IF_ERROR(open_index_report());
  MTL_RETURN_IF_ERROR(open_cublaslt());
  information->device_index = options.device_index;
  std::snprintf(information->cublaslt_path, sizeof information->cublaslt_path, "%s", cublaslt_path());
  information->cublaslt_version = cublaslt_version();
  *opened_backend = &backend;
  *opened_device_api = device_api();
  return ok_status();
}

const CudaLibrary library = {kCudaLibraryAbiVersion, kBackendAbiVersion, probe_devices, open,
                             set_matmul_choices, matmul_choices};

}  // namespace
}  // namespace mtl::cuda

const mtl::CudaLibrary* mtl_cuda_library() { return &mtl::cuda::library; }

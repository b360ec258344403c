// The C ABI between the addon and the CUDA library (libmtl_cuda.so). The library is opened only when device
// `cuda` is requested, so everything else works without a driver, and in a build without nvcc. It exports one
// function, mtl_cuda_library(), which returns a table of plain functions. kCudaLibraryAbiVersion must be
// raised after a change of a struct here, in core/backend.h, core/op_call.h, core/tensor_view.h or
// include/mtl/device_api.h, or of the tensors or attributes of an op.
#pragma once

#include "core/backend.h"
#include "mtl/device_api.h"

namespace mtl {

constexpr int kCudaLibraryAbiVersion = 11;
constexpr int kMaxCudaDevices = 16;

struct CudaDeviceProperties {
  char name[128];
  int32_t compute_capability;  // 90 for 9.0
  int32_t num_multiprocessors;
  uint64_t memory_bytes;
};

// The versions of the driver and the library, and the GPUs. Obtained without using a device.
struct CudaProbe {
  int32_t driver_version;   // newest CUDA version that the driver supports: 13000 for 13.0; 0 without a driver
  int32_t runtime_version;  // the CUDA version that the library was built with
  int32_t num_devices;
  CudaDeviceProperties devices[kMaxCudaDevices];
};

struct CudaOptions {
  int32_t device_index;
  // The candidates for cuBLASLt: paths or names for dlopen, one per line, the best first.
  const char* cublaslt_candidates;
  bool allow_tf32;  // float32 matmuls in TF32: faster, with 10 bits of mantissa
};

// Describes the device and the libraries that have been opened.
struct CudaLibraryInformation {
  CudaProbe probe;
  int32_t device_index;
  char cublaslt_path[512];
  uint64_t cublaslt_version;  // 130000 for 13.0.0
};

struct CudaLibrary {
  int32_t abi_version;  // the first field, checked before the others, which may differ in another version
  int32_t backend_abi_version;
  // Fills `probe`. Its driver_version and num_devices show if the driver or the GPU is missing. Fails only if
  // the driver fails.
  Status (*probe)(CudaProbe* probe);
  // Opens the device for this process, once. Fails with MTL_CUDA_DRIVER, MTL_CUDA_DEVICE, MTL_CUBLASLT or
  // MTL_CUDA.
  Status (*open)(const CudaOptions& options, CudaLibraryInformation* information, const Backend** backend,
                 const MtlDeviceApi** device_api);
  // These functions set and return the choices of matmul algorithms (see cublaslt.h). The device must be
  // open.
  Status (*set_matmul_choices)(const char* lines, bool times_others);
  const char* (*matmul_choices)();
};

}  // namespace mtl

extern "C" __attribute__((visibility("default"))) const mtl::CudaLibrary* mtl_cuda_library();

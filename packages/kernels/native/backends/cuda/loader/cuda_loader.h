// Opens the CUDA library on request. The addon itself does not link CUDA.
#pragma once

#include "backends/cuda/cuda_library.h"
#include "core/scratch_blocks.h"

namespace mtl {

// Loads libmtl_cuda.so from `path` and checks that its ABI version is the same as the addon's version. Fails
// with MTL_CUDA_LIBRARY or MTL_CUDA_ABI.
Status load_cuda_library(const char* path, const CudaLibrary** library);

// Opens a device for this process. Fails with the errors of CudaLibrary::open. Also fails if the process has
// already opened a different device (MTL_CUDA_DEVICE) or a different library (MTL_CUDA_LIBRARY).
Status open_cuda(const CudaLibrary& library, const CudaOptions& options, CudaLibraryInformation* information);

// These three functions return null until open_cuda has succeeded.
const Backend* cuda_backend();
const MtlDeviceApi* cuda_device_api();
const CudaLibrary* opened_cuda_library();

// Returns the properties of the open GPU. If none is open, returns the properties of an H100.
GpuProperties cuda_gpu_properties();

}  // namespace mtl

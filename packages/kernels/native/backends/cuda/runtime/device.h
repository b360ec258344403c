// This process's GPU, with its streams and memory. open_device sets them up, and they stay until the process
// ends: tensors may be released later than any other object, and the driver frees everything in the end.
#pragma once

#include "backends/cuda/cuda_library.h"
#include "backends/cuda/runtime/cuda_status.h"
#include "core/device_memory.h"
#include "core/scratch_blocks.h"

namespace mtl::cuda {

Status probe_devices(CudaProbe* probe);
Status open_device(int device_index);

// Makes the device current in the calling thread. This is necessary because CUDA keeps the current device per
// thread, and any thread may release tensors.
Status use_device();

int device_index();
const unsigned char* device_uuid();  // 16 bytes
GpuProperties gpu_properties();
int compute_capability();  // 90 for 9.0
cudaStream_t stream_of(MtlStream which);
inline cudaStream_t compute_stream() { return stream_of(MTL_STREAM_COMPUTE); }

DeviceMemory& device_memory();
// Implements MtlDeviceApi::keep_memory (see include/mtl/device_api.h).
void keep_device_memory(int32_t change);
MemoryArena& pinned_memory();

// These functions allocate and release memory for tensors and kernels. The compute stream orders its use: the
// next user of a block runs after the kernels that are already enqueued.
Status allocate_device_memory(size_t bytes, void** data);
void release_device_memory(void* data);

}  // namespace mtl::cuda

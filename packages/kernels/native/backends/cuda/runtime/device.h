// The one GPU of this process: its streams and its memory. Set up by open_device, never torn down: tensors
// may outlive everything else, and the driver frees everything when the process ends.
#pragma once

#include "backends/cuda/cuda_library.h"
#include "backends/cuda/runtime/cuda_status.h"
#include "backends/cuda/runtime/memory_arena.h"

namespace mtl::cuda {

Status probe_devices(CudaProbe* probe);
Status open_device(int device_index);

// Makes the device current in the calling thread: CUDA keeps the current device per thread, and any thread
// may release tensors.
Status use_device();

int device_index();
const unsigned char* device_uuid();  // 16 bytes
int num_multiprocessors();
int compute_capability();  // 90 for 9.0
cudaStream_t stream_of(MtlStream which);
inline cudaStream_t compute_stream() { return stream_of(MTL_STREAM_COMPUTE); }

// All of the device's memory that is in use, including the memory of graphs.
MemoryArena& device_memory();
MemoryArena& pinned_memory();

// Allocates for tensors and kernels: from the memory that the thread has entered, else from the device's.
Status allocate_device_memory(size_t bytes, void** data);
void release_device_memory(void* data);

// Separate memory (for graphs): taken from the device's in segments, and returned as a whole.
MemoryArena* create_device_memory();
Status destroy_device_memory(MemoryArena* memory);  // MTL_ARGUMENT while part of it is in use
Status enter_device_memory(MemoryArena* memory);
void leave_device_memory();

// Device memory for the kernels of a scope; `data` is null if the allocation failed. Ordered by the compute
// stream: the next user of the memory runs after these kernels.
class DeviceScratch {
 public:
  explicit DeviceScratch(size_t bytes) { discard(allocate_device_memory(bytes, &data)); }
  ~DeviceScratch() { release_device_memory(data); }
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  void* data = nullptr;
};

}  // namespace mtl::cuda

// The memory of the emulated driver. It records the owner of each allocation, so that copies and kernels
// access only memory that a GPU can access. On request, the host cannot access device memory, as on a GPU.
#pragma once

#include <cstddef>

namespace mtl::emulation {

enum class Owner { kDevice, kPinned, kPageable };  // kPageable: all memory unknown to the driver

// Allocates memory aligned to 512 bytes, filled with NaN if `is_written` is true. Returns null if there is
// not enough memory.
void* take_device_memory(size_t bytes, bool is_written);
void* take_pinned_memory(size_t bytes, bool is_written);
// Releases memory. Returns false if it was not allocated here.
bool give_memory_back(void* data);
// Returns the owner of the `bytes` bytes at `data`. A range has no owner if an allocation ends inside it.
Owner owner_of(const void* data, size_t bytes);

// From now on, forbids the host to access device memory if `is_kept` is true, otherwise allows it. Code
// within a DeviceMemoryInReach may always access device memory. Any other access ends the process with a
// message.
void keep_from_host(bool is_kept);

class DeviceMemoryInReach {
 public:
  DeviceMemoryInReach();
  ~DeviceMemoryInReach();
  DeviceMemoryInReach(const DeviceMemoryInReach&) = delete;
  DeviceMemoryInReach& operator=(const DeviceMemoryInReach&) = delete;
};

}  // namespace mtl::emulation

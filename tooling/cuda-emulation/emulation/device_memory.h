// Memory of the emulated driver: records the owner, so that copies and kernels only access memory that a GPU
// can access. On request, the host cannot access device memory, as on a GPU.
#pragma once

#include <cstddef>

namespace mtl::emulation {

enum class Owner { kDevice, kPinned, kPageable };  // kPageable: all memory unknown to the driver

// Aligned to 512 bytes, all NaN (if `is_written`); null if there is not enough.
void* take_device_memory(size_t bytes, bool is_written);
void* take_pinned_memory(size_t bytes, bool is_written);
// False for memory that was not allocated here.
bool give_memory_back(void* data);
// The owner of all bytes from `data` on; memory that ends within them has no owner.
Owner owner_of(const void* data, size_t bytes);

// Tells whether host access to device memory is forbidden from here on, except within a DeviceMemoryInReach.
// An access ends the process with a message.
void keep_from_host(bool is_kept);

class DeviceMemoryInReach {
 public:
  DeviceMemoryInReach();
  ~DeviceMemoryInReach();
  DeviceMemoryInReach(const DeviceMemoryInReach&) = delete;
  DeviceMemoryInReach& operator=(const DeviceMemoryInReach&) = delete;
};

}  // namespace mtl::emulation

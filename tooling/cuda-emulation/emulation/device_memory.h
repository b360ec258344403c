// Memory as the driver gives it: whose it is, so that copies and kernels are checked for what a GPU can
// access, and, where asked, device memory that the host cannot touch, as on a GPU.
#pragma once

#include <cstddef>

namespace mtl::emulation {

enum class Owner { kDevice, kPinned, kPageable };  // kPageable: everything that the driver does not know

// Aligned to 512 bytes, all NaN (where `is_written`); null where there is none.
void* take_device_memory(size_t bytes, bool is_written);
void* take_pinned_memory(size_t bytes, bool is_written);
// False for what was not given out.
bool give_memory_back(void* data);
// Of all bytes from `data` on; memory that ends within them has no owner.
Owner owner_of(const void* data, size_t bytes);

// Whether the host is kept from device memory from here on, but for a DeviceMemoryInReach. A touch ends the
// process, and says so.
void keep_from_host(bool is_kept);

class DeviceMemoryInReach {
 public:
  DeviceMemoryInReach();
  ~DeviceMemoryInReach();
  DeviceMemoryInReach(const DeviceMemoryInReach&) = delete;
  DeviceMemoryInReach& operator=(const DeviceMemoryInReach&) = delete;
};

}  // namespace mtl::emulation

// Code that the backends without values share.
#pragma once

#include "core/backend.h"

namespace mtl {

// The functions that differ between the devices without values.
struct CountingDevice {
  DeviceKind kind;
  const char* name;
  Status (*allocate)(size_t bytes, void** data);
  void (*release)(void* data);
  MemoryStatistics (*memory_statistics)();
  void (*reset_peak_memory)();
  void (*trim_memory)();
  void (*limit_memory)(uint64_t bytes);
  KernelFunction (*find_kernel)(const char* op);
};

// Returns MTL_META, because there are no values to read.
Status refuse_read(const char* device);

// Returns a backend whose writes have no effect, whose reads fail, and whose waits return at once. Device
// meta uses it directly; device meta-cuda replaces the functions that CUDA refuses while a graph is recorded.
Backend backend_without_values(const CountingDevice& device);

}  // namespace mtl

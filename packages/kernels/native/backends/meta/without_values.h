// What backends without values have in common.
#pragma once

#include "core/backend.h"

namespace mtl {

// What differs between them.
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
  const GraphFunctions* graphs;
};

// Writes are accepted and have no effect; reading is MTL_META.
Backend backend_without_values(const CountingDevice& device);

}  // namespace mtl

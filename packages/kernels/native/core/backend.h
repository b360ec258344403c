// The interface that every device implements. There are five backends: `cpu` (vectorised, threaded),
// `reference` (naive, same host memory, the oracle for tests), `cuda` (a separate shared library that returns
// such a table, see backends/cuda/cuda_library.h), `meta` and `meta-cuda` (without memory and values: they
// count memory and FLOPs as `cpu` and `cuda` do). The table has a version and consists of plain data and
// plain functions, so that it can cross a C ABI.
#pragma once

#include "core/caching_allocator.h"
#include "core/device_marks.h"
#include "core/graphs.h"
#include "core/op_call.h"

namespace mtl {

constexpr int kBackendAbiVersion = 5;

// The values are shared with TypeScript (src/device.ts).
enum class DeviceKind : int32_t { kCpu = 0, kReference = 1, kCuda = 2, kMeta = 3, kMetaCuda = 4 };
constexpr int kNumDeviceKinds = 5;

struct Backend {
  int abi_version;
  DeviceKind kind;
  const char* name;

  // Allocates memory with an alignment of at least 64 bytes. Its contents are undefined.
  Status (*allocate)(size_t bytes, void** data);
  void (*release)(void* data);
  Status (*fill)(void* data, uint8_t value, size_t bytes);
  Status (*copy_from_host)(void* destination, const void* source, size_t bytes);  // `source` is reusable afterwards
  Status (*copy_to_host)(void* destination, const void* source, size_t bytes);  // waits for the result
  Status (*copy_within)(void* destination, const void* source, size_t bytes);
  MemoryStatistics (*memory_statistics)();
  void (*reset_peak_memory)();
  void (*trim_memory)();
  void (*limit_memory)(uint64_t bytes);

  // Waits for everything enqueued so far.
  Status (*synchronize)();

  // Returns this device's kernel for an op, or null if there is none.
  KernelFunction (*find_kernel)(const char* op);

  // Marks the work that is enqueued from here to the matching pop, for profilers. Null if no profiler is
  // attached.
  void (*push_range)(const char* name) = nullptr;
  void (*pop_range)() = nullptr;

  // The functions for recording graphs; null if the device's work cannot be recorded.
  const GraphFunctions* graphs = nullptr;

  // The functions for marks; null if every call on the device finishes its work before returning.
  const MarkFunctions* marks = nullptr;
};

// Returns a device's backend, or null if it is not loaded.
const Backend* backend_of(DeviceKind kind);

}  // namespace mtl

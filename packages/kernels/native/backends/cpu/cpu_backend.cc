#include "backends/cpu/cpu_backend.h"

#include <cstring>

#include "backends/cpu/instruction_sets.h"

namespace mtl {
namespace {

MatmulLibrary chosen_library = MatmulLibrary::kFaster;

Status allocate(size_t bytes, void** data) { return host_allocator().allocate(bytes, data); }
void release(void* data) { host_allocator().release(data); }

Status fill(void* data, uint8_t value, size_t bytes) {
  std::memset(data, value, bytes);
  return ok_status();
}

Status copy(void* destination, const void* source, size_t bytes) {
  std::memmove(destination, source, bytes);
  return ok_status();
}

MemoryStatistics memory_statistics() { return host_allocator().statistics(); }
void reset_peak_memory() { host_allocator().reset_peak(); }
void trim_memory() { host_allocator().trim(); }
void limit_memory(uint64_t bytes) { host_allocator().set_limit(bytes); }
Status synchronize() { return ok_status(); }

// Returns the op's kernel for the active instruction set, or else for a set that it extends, or for every
// set.
CpuKernel cpu_kernel_of(const char* op) {
  const OpEntry* entry = find_op(op);
  if (entry == nullptr) return {};
  for (const InstructionSet* set = &active_instruction_set();; set = find_instruction_set(set->extends)) {
    for (const CpuKernel& kernel : entry->cpu) {
      if (kernel.set == set) return kernel;
    }
    if (set == nullptr) return {};
  }
}

KernelFunction find_cpu_kernel(const char* op) { return cpu_kernel_of(op).run; }

KernelFunction find_reference_kernel(const char* op) {
  const OpEntry* entry = find_op(op);
  return entry == nullptr ? nullptr : entry->reference;
}

Backend host_backend(DeviceKind kind, const char* name, KernelFunction (*find_kernel)(const char*)) {
  return Backend{kBackendAbiVersion, kind,  name, allocate,          release,           fill,
                 copy,               copy,  copy, memory_statistics, reset_peak_memory, trim_memory,
                 limit_memory,       synchronize, find_kernel};
}

}  // namespace

const Backend* cpu_backend() {
  static const Backend backend = host_backend(DeviceKind::kCpu, "cpu", find_cpu_kernel);
  return &backend;
}

ScratchFunction cpu_scratch_of(const char* op) { return cpu_kernel_of(op).scratch; }

const Backend* reference_backend() {
  static const Backend backend = host_backend(DeviceKind::kReference, "reference", find_reference_kernel);
  return &backend;
}

MatmulLibrary matmul_library() { return chosen_library; }
void set_matmul_library(MatmulLibrary library) { chosen_library = library; }

}  // namespace mtl

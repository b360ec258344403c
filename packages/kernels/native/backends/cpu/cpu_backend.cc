#include "backends/cpu/cpu_backend.h"

#include <cstring>

#include "backends/cpu/host_graphs.h"
#include "backends/cpu/instruction_sets.h"
#include "core/recorded_calls.h"

namespace mtl {
namespace {

MatmulLibrary chosen_library = MatmulLibrary::kFaster;

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

// The functions of device cpu. While a graph is recorded, work is added to the graph instead of being done.

Status refuse_while_recording(const char* what) {
  return recorded_calls(*cpu_backend()) == nullptr ? ok_status() : not_in_capture(what);
}

Status recordable_fill(void* data, uint8_t value, size_t bytes) {
  RecordedCalls* const recorded = recorded_calls(*cpu_backend());
  if (recorded == nullptr) return fill(data, value, bytes);
  recorded->add_fill(data, value, bytes);
  return ok_status();
}

Status copy_from_host(void* destination, const void* source, size_t bytes) {
  MTL_RETURN_IF_ERROR(refuse_while_recording(kCopyFromHost));
  return copy(destination, source, bytes);
}

Status copy_to_host(void* destination, const void* source, size_t bytes) {
  MTL_RETURN_IF_ERROR(refuse_while_recording(kCopyToHost));
  return copy(destination, source, bytes);
}

Status copy_within(void* destination, const void* source, size_t bytes) {
  MTL_RETURN_IF_ERROR(refuse_while_recording("a copy of memory"));
  return copy(destination, source, bytes);
}

Status synchronize_unless_recording() { return refuse_while_recording(kWaiting); }

// Returns the op's kernel for the active instruction set. If there is none, returns the kernel for a set that
// the active set extends, or the kernel that all sets share.
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
  return Backend{kBackendAbiVersion, kind,  name, allocate_host_memory, release_host_memory, fill,
                 copy,               copy,  copy, memory_statistics,    reset_peak_memory,   trim_memory,
                 limit_memory,       synchronize, find_kernel};
}

}  // namespace

const Backend* cpu_backend() {
  static const Backend backend = [] {
    Backend cpu = host_backend(DeviceKind::kCpu, "cpu", find_cpu_kernel);
    cpu.fill = recordable_fill;
    cpu.copy_from_host = copy_from_host;
    cpu.copy_to_host = copy_to_host;
    cpu.copy_within = copy_within;
    cpu.synchronize = synchronize_unless_recording;
    cpu.graphs = host_graph_functions();
    return cpu;
  }();
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

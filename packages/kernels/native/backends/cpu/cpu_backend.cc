#include "backends/cpu/cpu_backend.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace mtl {
namespace {

InstructionSet best_level() {
  int level = static_cast<int>(detected_instruction_set());
  while (level > 0 && !contains_instruction_set(static_cast<InstructionSet>(level))) --level;
  return static_cast<InstructionSet>(level);
}

InstructionSet chosen_level = best_level();
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

// Returns the op's kernel for the active instruction set, or for the best lower one that has a kernel.
CpuKernel cpu_kernel_of(const char* op) {
  const OpEntry* entry = find_op(op);
  if (entry == nullptr) return {};
  for (int level = static_cast<int>(chosen_level); level >= 0; --level) {
    if (entry->cpu[level].run != nullptr) return entry->cpu[level];
  }
  return {};
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

InstructionSet detected_instruction_set() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bf16");
  if (avx512) return InstructionSet::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kPlain;
}

bool has_amx() {
#if defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
  static const bool usable = __builtin_cpu_supports("amx-bf16") &&
                             syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return usable;
#else
  return false;
#endif
}

bool contains_instruction_set(InstructionSet level) { return (MTL_COMPILED_LEVELS >> static_cast<int>(level) & 1) != 0; }

InstructionSet active_instruction_set() { return chosen_level; }

MatmulLibrary matmul_library() { return chosen_library; }
void set_matmul_library(MatmulLibrary library) { chosen_library = library; }

Status set_instruction_set(InstructionSet level) {
  if (level > detected_instruction_set()) {
    return error_status("MTL_INSTRUCTION_SET", "this processor does not have the instruction set asked for");
  }
  if (!contains_instruction_set(level)) {
    return error_status("MTL_INSTRUCTION_SET", "the kernels were not compiled for the instruction set asked for");
  }
  chosen_level = level;
  return ok_status();
}

}  // namespace mtl

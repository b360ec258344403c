#include "backends/meta/meta_backend.h"

#include <string_view>

#include "backends/cpu/cpu_backend.h"
#include "backends/meta/addresses.h"
#include "backends/meta/without_values.h"
#include "core/op_registry.h"
#include "ops/cross_entropy.h"
#include "ops/linear.h"

namespace mtl {
namespace {

Addresses& addresses() {
  static Addresses* const all = new Addresses(62);  // never destroyed, like the allocator
  return *all;
}

void* reserve_addresses(size_t bytes) { return addresses().take(bytes); }
void give_addresses_back(void* data, size_t) { addresses().give_back(data); }

CachingAllocator& meta_allocator() {
  static constexpr BlockSource source = {reserve_addresses, give_addresses_back, false};
  static CachingAllocator* allocator = new CachingAllocator(source);  // never destroyed, like the CPU's allocator
  return *allocator;
}

Status allocate(size_t bytes, void** data) { return meta_allocator().allocate(bytes, data); }
void release(void* data) { meta_allocator().release(data); }
MemoryStatistics memory_statistics() { return meta_allocator().statistics(); }
void reset_peak_memory() { meta_allocator().reset_peak(); }
void trim_memory() { meta_allocator().trim(); }
void limit_memory(uint64_t bytes) { meta_allocator().set_limit(bytes); }

// Takes the place of a kernel: allocates and releases the scratch memory that the CPU kernel declares.
Status count_scratch(const OpCall& call) {
  const ScratchFunction scratch = cpu_scratch_of(call.op);
  if (scratch == nullptr) return ok_status();
  ScratchBlocks blocks;
  MTL_RETURN_IF_ERROR(scratch(call, &blocks));
  ScratchMemory memory(allocate, release);
  return memory.take(call.op, blocks);
}

KernelFunction find_meta_kernel(const char* op);

// Runs the components of an operation that the CPU does not fuse. Each component must run, because it
// allocates its own scratch memory, which must be counted.
struct InParts {
  const char* op;
  KernelFunction run;
};
constexpr InParts kInParts[] = {
    {"linear_gelu_forward", [](const OpCall& call) { return linear_gelu_forward_in_parts(call, find_meta_kernel); }},
    {"linear_residual_forward", [](const OpCall& call) { return linear_residual_forward_in_parts(call, find_meta_kernel); }},
    {"linear_gelu_backward", [](const OpCall& call) { return linear_gelu_backward_in_parts(call, find_meta_kernel); }},
    {"linear_weight_gradient",
     [](const OpCall& call) { return linear_weight_gradient_in_parts(call, find_meta_kernel); }},
    {"cross_entropy_forward_backward", [](const OpCall& call) { return cross_entropy_in_parts(call, find_meta_kernel); }},
};

// Returns null for an operation that has no CPU kernel, because device meta does not support it either.
KernelFunction find_meta_kernel(const char* op) {
  if (cpu_backend()->find_kernel(op) == nullptr) return nullptr;
  for (const InParts& each : kInParts) {
    if (std::string_view(each.op) == op) return each.run;
  }
  return count_scratch;
}

}  // namespace

const Backend* meta_backend() {
  static const Backend backend =
      backend_without_values({DeviceKind::kMeta, "meta", allocate, release, memory_statistics, reset_peak_memory,
                              trim_memory, limit_memory, find_meta_kernel});
  return &backend;
}

}  // namespace mtl

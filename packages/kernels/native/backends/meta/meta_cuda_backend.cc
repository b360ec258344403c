#include <cstring>

#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/loader/cuda_loader.h"
#include "backends/cuda/scratch/linear.h"
#include "backends/meta/addresses.h"
#include "backends/meta/meta_backend.h"
#include "backends/meta/without_values.h"
#include "core/device_memory.h"
#include "core/op_registry.h"
#include "ops/linear.h"

namespace mtl {
namespace {

Addresses& addresses() {
  static Addresses* const all = new Addresses(61);  // never destroyed, like the memory
  return *all;
}

// Returns a range of addresses without memory. It is aligned like the driver's memory, because kernels are
// selected by alignment.
Status reserve_addresses(size_t bytes, void** data) {
  *data = addresses().take(bytes);
  if (*data != nullptr) return ok_status();
  return error_status("MTL_OUT_OF_MEMORY", "no %zu addresses are left", bytes);
}

DeviceMemory& memory() {
  static DeviceMemory* const all = [] {
    MemoryArena::Source source;
    source.reserve = reserve_addresses;
    source.give_back = [](void* data) { addresses().give_back(data); };
    source.is_memory = false;
    return new DeviceMemory(std::move(source));  // never destroyed, like the CUDA device's memory
  }();
  return *all;
}

Status allocate(size_t bytes, void** data) { return memory().allocate(bytes, data); }
void release(void* data) { memory().release(data); }
MemoryStatistics memory_statistics() { return memory().arena().statistics(); }
void reset_peak_memory() { memory().arena().reset_peak(); }
void trim_memory() { memory().arena().trim(); }
void limit_memory(uint64_t bytes) { memory().arena().set_limit(bytes); }

// Takes the place of a kernel: allocates and releases the scratch memory that the CUDA kernel declares.
Status count_scratch(const OpCall& call) {
  const OpEntry* const entry = find_op(call.op);
  if (entry->cuda_scratch == nullptr) return ok_status();
  ScratchBlocks blocks;
  MTL_RETURN_IF_ERROR(entry->cuda_scratch(call, cuda_gpu_properties(), &blocks));
  ScratchMemory scratch(allocate, release);
  return scratch.take(call.op, blocks);
}

KernelFunction find_kernel(const char* op);

// Assumes that cuBLASLt supports the requested fusion, because only cuBLASLt itself could tell.
Status weight_gradient(const OpCall& call) {
  if (cuda::fuses_bias_gradient(call, cuda_gpu_properties())) return count_scratch(call);
  return linear_weight_gradient_in_parts(call, find_kernel);
}

// Assumes that CUDA has a kernel for every operation that has a CPU kernel.
KernelFunction find_kernel(const char* op) {
  if (cpu_backend()->find_kernel(op) == nullptr) return nullptr;
  return std::strcmp(op, "linear_weight_gradient") == 0 ? weight_gradient : count_scratch;
}

Status create_memory(void** separate) {
  *separate = memory().create_separate();
  return ok_status();
}
Status destroy_memory(void* separate) { return memory().destroy_separate(static_cast<MemoryArena*>(separate)); }
Status enter_memory(void* separate) { return memory().enter(static_cast<MemoryArena*>(separate)); }
void leave_memory() { memory().leave(); }

// True while the calling thread records a graph. Calls that CUDA refuses during this time are refused here
// too.
thread_local bool is_capturing = false;

Status refuse_while_capturing(const char* what) { return is_capturing ? not_in_capture(what) : ok_status(); }

Status begin_capture() {
  if (is_capturing) return nested_capture();
  is_capturing = true;
  return ok_status();
}

// Returns null instead of a graph, because the recorded operations would compute nothing.
Status end_capture(void** graph) {
  if (!is_capturing) return no_capture();
  is_capturing = false;
  if (graph != nullptr) *graph = nullptr;
  return ok_status();
}

Status launch(void*) { return refuse_while_capturing(kLaunchingGraph); }
void destroy(void*) {}

Status copy_from_host(void*, const void*, size_t) { return refuse_while_capturing(kCopyFromHost); }
Status copy_to_host(void*, const void*, size_t) {
  MTL_RETURN_IF_ERROR(refuse_while_capturing(kCopyToHost));
  return refuse_read("meta-cuda");
}
Status synchronize() { return refuse_while_capturing(kWaiting); }

}  // namespace

const Backend* meta_cuda_backend() {
  static const GraphFunctions graphs = {create_memory, destroy_memory, enter_memory, leave_memory,
                                        begin_capture, end_capture,    launch,       destroy};
  static const Backend backend = [] {
    Backend made = backend_without_values({DeviceKind::kMetaCuda, "meta-cuda", allocate, release, memory_statistics,
                                           reset_peak_memory, trim_memory, limit_memory, find_kernel});
    made.copy_from_host = copy_from_host;
    made.copy_to_host = copy_to_host;
    made.synchronize = synchronize;
    made.graphs = &graphs;
    return made;
  }();
  return &backend;
}

}  // namespace mtl

#include <atomic>
#include <cstring>

#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/loader/cuda_loader.h"
#include "backends/cuda/scratch/linear.h"
#include "backends/meta/meta_backend.h"
#include "backends/meta/without_values.h"
#include "core/device_memory.h"
#include "core/op_registry.h"
#include "core/run_op.h"
#include "ops/linear.h"

namespace mtl {
namespace {

// Segments without memory. Their addresses are aligned like those of the driver, because kernels are selected
// by alignment.
Status reserve_addresses(size_t bytes, void** data) {
  static std::atomic<uint64_t> next{uint64_t{1} << 61};
  *data = reinterpret_cast<void*>(next.fetch_add(bytes));
  return ok_status();
}

DeviceMemory& memory() {
  static DeviceMemory* const all = [] {
    MemoryArena::Source source;
    source.reserve = reserve_addresses;
    source.give_back = [](void*) {};
    source.is_memory = false;
    return new DeviceMemory(std::move(source));  // never destroyed, like the device's
  }();
  return *all;
}

Status allocate(size_t bytes, void** data) { return memory().allocate(bytes, data); }
void release(void* data) { memory().release(data); }
MemoryStatistics memory_statistics() { return memory().arena().statistics(); }
void reset_peak_memory() { memory().arena().reset_peak(); }
void trim_memory() { memory().arena().trim(); }
void limit_memory(uint64_t bytes) { memory().arena().set_limit(bytes); }

// Replaces a kernel: allocates and releases the scratch memory that the CUDA kernel declares.
Status count_scratch(const OpCall& call) {
  const OpEntry* const entry = find_op(call.op);
  if (entry->cuda_scratch == nullptr) return ok_status();
  ScratchBlocks blocks;
  MTL_RETURN_IF_ERROR(entry->cuda_scratch(call, cuda_gpu_properties(), &blocks));
  ScratchMemory scratch(allocate, release);
  return scratch.take(call.op, blocks);
}

KernelFunction find_kernel(const char* op);

// cuBLASLt is assumed to have the fusions that are asked for: whether it does is known only to the library.
Status weight_gradient(const OpCall& call) {
  if (cuda::fuses_bias_gradient(call, cuda_gpu_properties())) return count_scratch(call);
  return linear_weight_gradient_in_parts(call, find_kernel);
}

// Every operation that the CPU has, CUDA has too.
KernelFunction find_kernel(const char* op) {
  if (cpu_backend()->find_kernel(op) == nullptr) return nullptr;
  return std::strcmp(op, "linear_weight_gradient") == 0 ? weight_gradient : count_scratch;
}

// A graph is the FLOPs of its operations, which are counted when it is launched.
struct Graph {
  double flops;
};

thread_local double flops_before_capture = -1.0;

Status create_memory(void** separate) {
  *separate = memory().create_separate();
  return ok_status();
}
Status destroy_memory(void* separate) { return memory().destroy_separate(static_cast<MemoryArena*>(separate)); }
Status enter_memory(void* separate) { return memory().enter(static_cast<MemoryArena*>(separate)); }
void leave_memory() { memory().leave(); }

Status begin_capture() {
  if (flops_before_capture >= 0.0) return error_status("MTL_CAPTURE", "a graph is being recorded already");
  flops_before_capture = counted_flops();
  return ok_status();
}

Status end_capture(void** graph) {
  if (flops_before_capture < 0.0) return error_status("MTL_CAPTURE", "no graph is being recorded");
  const double flops = counted_flops() - flops_before_capture;
  flops_before_capture = -1.0;
  if (graph != nullptr) *graph = new Graph{flops};
  count_flops(-flops);  // recorded, not done
  return ok_status();
}

Status launch(void* graph) {
  count_flops(static_cast<const Graph*>(graph)->flops);
  return ok_status();
}

void destroy(void* graph) { delete static_cast<Graph*>(graph); }

}  // namespace

const Backend* meta_cuda_backend() {
  static const GraphFunctions graphs = {create_memory, destroy_memory, enter_memory, leave_memory,
                                        begin_capture, end_capture,    launch,       destroy};
  static const Backend backend =
      backend_without_values({DeviceKind::kMetaCuda, "meta-cuda", allocate, release, memory_statistics,
                              reset_peak_memory, trim_memory, limit_memory, find_kernel, &graphs});
  return &backend;
}

}  // namespace mtl

#include "backends/cpu/host_graphs.h"

#include "backends/cpu/cpu_backend.h"
#include "core/recorded_calls.h"
#include "core/separate_memories.h"

namespace mtl {
namespace {

SeparateMemories& memories() {
  static SeparateMemories* const all = [] {
    MemoryArena::Source segments;
    segments.reserve = [](size_t bytes, void** data) { return host_allocator().allocate(bytes, data); };
    segments.give_back = [](void* data) { host_allocator().release(data); };
    return new SeparateMemories(std::move(segments));  // never destroyed, like the host's allocator
  }();
  return *all;
}

Status create_memory(void** memory) {
  *memory = memories().create();
  return ok_status();
}

Status destroy_memory(void* memory) { return memories().destroy(static_cast<MemoryArena*>(memory)); }
Status enter_memory(void* memory) { return memories().enter(static_cast<MemoryArena*>(memory)); }
void leave_memory() { memories().leave(); }

Status begin_capture() {
  if (recorded_calls(*cpu_backend()) != nullptr) return nested_capture();
  record_calls(*cpu_backend(), new RecordedCalls);
  return ok_status();
}

Status end_capture(void** graph) {
  RecordedCalls* const calls = recorded_calls(*cpu_backend());
  if (calls == nullptr) return no_capture();
  record_calls(*cpu_backend(), nullptr);
  if (graph == nullptr) delete calls;
  else *graph = calls;
  return ok_status();
}

Status launch(void* graph) {
  if (recorded_calls(*cpu_backend()) != nullptr) return not_in_capture(kLaunchingGraph);
  return static_cast<const RecordedCalls*>(graph)->run();
}

void destroy(void* graph) { delete static_cast<RecordedCalls*>(graph); }

}  // namespace

const GraphFunctions* host_graph_functions() {
  static const GraphFunctions functions = {create_memory, destroy_memory, enter_memory, leave_memory,
                                           begin_capture, end_capture,    launch,       destroy};
  return &functions;
}

Status allocate_host_memory(size_t bytes, void** data) {
  MemoryArena* const separate = memories().entered();
  return separate == nullptr ? host_allocator().allocate(bytes, data) : separate->allocate(bytes, data);
}

void release_host_memory(void* data) {
  // graph memories are searched first, because the first block in a segment has the same address as the
  // segment
  if (!memories().release(data)) host_allocator().release(data);
}

}  // namespace mtl

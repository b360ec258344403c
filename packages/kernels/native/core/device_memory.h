// All memory of a device: the memory for tensors and kernels, and separate memories for graphs. Segments of
// graph memories are blocks of the device's memory. Devices cuda and meta-cuda share this code, so that
// meta-cuda counts memory like cuda.
#pragma once

#include "core/separate_memories.h"

namespace mtl {

class DeviceMemory {
 public:
  explicit DeviceMemory(MemoryArena::Source source);

  // Allocates from the graph memory that the calling thread has entered, or from the device's memory if the
  // thread has entered none.
  Status allocate(size_t bytes, void** data);
  void release(void* data);
  // The device's memory. All segments of graph memories count as used blocks of this memory.
  MemoryArena& arena() { return arena_; }

  // Creates a separate memory for graphs, which is returned to the device at once.
  MemoryArena* create_separate() { return graphs_.create(); }
  Status destroy_separate(MemoryArena* memory) { return graphs_.destroy(memory); }
  Status enter(MemoryArena* memory) { return graphs_.enter(memory); }
  void leave() { graphs_.leave(); }

 private:
  MemoryArena arena_;
  SeparateMemories graphs_;
};

}  // namespace mtl

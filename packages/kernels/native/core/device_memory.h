// All memory of a device: the memory for tensors and kernels, and separate memories for graphs. Segments of
// graph memories are blocks of the device's memory. Devices cuda and meta-cuda share this code, so that
// meta-cuda counts memory in the same way as cuda.
#pragma once

#include "core/separate_memories.h"

namespace mtl {

class DeviceMemory {
 public:
  explicit DeviceMemory(MemoryArena::Source source);

  // Allocates from the graph memory that the calling thread has entered. If it has entered none, allocates
  // from the device's memory.
  Status allocate(size_t bytes, void** data);
  void release(void* data);
  // The device's memory. All segments of graph memories count as used blocks in it.
  MemoryArena& arena() { return arena_; }

  // Creates a separate memory for graphs. When it is destroyed, its memory is returned to the device at once.
  MemoryArena* create_separate() { return graphs_.create(); }
  Status destroy_separate(MemoryArena* memory) { return graphs_.destroy(memory); }
  Status enter(MemoryArena* memory) { return graphs_.enter(memory); }
  void leave() { graphs_.leave(); }

 private:
  MemoryArena arena_;
  SeparateMemories graphs_;
};

}  // namespace mtl

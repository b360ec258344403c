// All memory of a device: the memory for tensors and kernels, and separate memories for graphs. Segments of
// graph memories are blocks of the device's memory. Devices cuda and meta-cuda share this code, so that
// meta-cuda counts memory like cuda.
#pragma once

#include <vector>

#include "core/memory_arena.h"
#include "core/mutex.h"

namespace mtl {

class DeviceMemory {
 public:
  explicit DeviceMemory(MemoryArena::Source source) : arena_(std::move(source)) {}

  // Allocates from the graph memory that the calling thread has entered, or from the device's memory if the
  // thread has entered none.
  Status allocate(size_t bytes, void** data);
  void release(void* data);
  // The device's memory. All segments of graph memories count as its blocks in use.
  MemoryArena& arena() { return arena_; }

  // Creates a separate memory for graphs, which is returned to the device at once.
  MemoryArena* create_separate();
  Status destroy_separate(MemoryArena* memory);  // MTL_ARGUMENT while part of it is in use
  Status enter(MemoryArena* memory);
  void leave();

 private:
  MemoryArena arena_;
  Mutex mutex_;
  std::vector<MemoryArena*> separate_;  // few: one per stage whose passes are recorded
};

}  // namespace mtl

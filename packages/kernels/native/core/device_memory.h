// All memory of a device with an arena: the memory of tensors and kernels, and separate memories for graphs,
// which take segments from it. Devices cuda and meta-cuda share this code, so that meta-cuda counts memory as
// cuda does.
#pragma once

#include <mutex>
#include <vector>

#include "core/memory_arena.h"

namespace mtl {

class DeviceMemory {
 public:
  explicit DeviceMemory(MemoryArena::Source source) : arena_(std::move(source)) {}

  // Allocates from the memory that the calling thread has entered, else from the device's.
  Status allocate(size_t bytes, void** data);
  void release(void* data);
  // All that is in use, including the memories of graphs.
  MemoryArena& arena() { return arena_; }

  // Separate memory, returned as a whole.
  MemoryArena* create_separate();
  Status destroy_separate(MemoryArena* memory);  // MTL_ARGUMENT while part of it is in use
  Status enter(MemoryArena* memory);
  void leave();

 private:
  MemoryArena arena_;
  std::mutex mutex_;
  std::vector<MemoryArena*> separate_;  // few: one per stage whose passes are recorded
};

}  // namespace mtl

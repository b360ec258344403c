// All memory of a device with an arena: that of tensors and kernels, and separate memories for graphs, which
// are taken from it in segments. Device cuda and device meta-cuda, which counts as cuda does, share this
// code.
#pragma once

#include <mutex>
#include <vector>

#include "core/memory_arena.h"

namespace mtl {

class DeviceMemory {
 public:
  explicit DeviceMemory(MemoryArena::Source source) : arena_(std::move(source)) {}

  // From the memory that the calling thread has entered, else from the device's.
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

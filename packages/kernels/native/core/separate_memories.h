// Memories for graphs, separate from other memory of a device: a graph contains the addresses of tensors
// created during recording, so no other tensor may receive them.
#pragma once

#include <atomic>
#include <vector>

#include "core/memory_arena.h"
#include "core/mutex.h"

namespace mtl {

class SeparateMemories {
 public:
  // `segments` is the source of the memories' segments. The memories do not give segments back, even if
  // memory is short.
  explicit SeparateMemories(MemoryArena::Source segments);

  // Returns the memory that the calling thread has entered; null if the thread has entered none of these.
  MemoryArena* entered() const;
  // Releases a block. Returns false if the block belongs to no memory.
  bool release(void* data);

  MemoryArena* create();
  Status destroy(MemoryArena* memory);  // MTL_ARGUMENT while part of it is in use
  Status enter(MemoryArena* memory);
  void leave();

 private:
  const MemoryArena::Source segments_;
  Mutex mutex_;
  std::vector<MemoryArena*> memories_;  // few: one per stage or cache whose passes are recorded
  std::atomic<size_t> num_memories_{0};  // of `memories_`, for `release` without the lock
};

}  // namespace mtl

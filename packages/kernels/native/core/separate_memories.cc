#include "core/separate_memories.h"

#include <algorithm>

namespace mtl {
namespace {

// The memory that the calling thread has entered, and its owner. Both are null if it has entered none.
struct Entered {
  const SeparateMemories* owner = nullptr;
  MemoryArena* memory = nullptr;
};
thread_local Entered entered_memory;

MemoryArena::Source keeping_segments(MemoryArena::Source source) {
  source.keeps_segments = true;
  return source;
}

}  // namespace

SeparateMemories::SeparateMemories(MemoryArena::Source segments) : segments_(keeping_segments(std::move(segments))) {}

MemoryArena* SeparateMemories::entered() const {
  return entered_memory.owner == this ? entered_memory.memory : nullptr;
}

bool SeparateMemories::release(void* data) {
  if (num_memories_.load(std::memory_order_acquire) == 0) return false;
  const MutexLock lock(mutex_);
  for (MemoryArena* const memory : memories_) {
    if (memory->release(data)) return true;
  }
  return false;
}

MemoryArena* SeparateMemories::create() {
  MemoryArena* const memory = new MemoryArena(segments_);
  const MutexLock lock(mutex_);
  memories_.push_back(memory);
  num_memories_.store(memories_.size(), std::memory_order_release);
  return memory;
}

Status SeparateMemories::destroy(MemoryArena* memory) {
  const uint64_t in_use = memory->statistics().num_allocations;
  if (in_use > 0) {
    return error_status("MTL_ARGUMENT", "memory of graphs is let go of while %llu tensors or graphs have some of it",
                        static_cast<unsigned long long>(in_use));
  }
  {
    const MutexLock lock(mutex_);
    memories_.erase(std::find(memories_.begin(), memories_.end(), memory));
    num_memories_.store(memories_.size(), std::memory_order_release);
  }
  memory->trim();
  delete memory;
  return ok_status();
}

Status SeparateMemories::enter(MemoryArena* memory) {
  if (entered_memory.memory != nullptr) return error_status("MTL_ARGUMENT", "memory of graphs was entered twice");
  entered_memory = {this, memory};
  return ok_status();
}

void SeparateMemories::leave() { entered_memory = {}; }

}  // namespace mtl

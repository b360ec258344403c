#include "core/device_memory.h"

#include <algorithm>

namespace mtl {
namespace {

// The graph memory that the calling thread has entered, and its device; null if the thread has entered none.
struct Entered {
  const DeviceMemory* device = nullptr;
  MemoryArena* memory = nullptr;
};
thread_local Entered entered;

}  // namespace

Status DeviceMemory::allocate(size_t bytes, void** data) {
  return (entered.device == this ? *entered.memory : arena_).allocate(bytes, data);
}

void DeviceMemory::release(void* data) {
  {
    // graph memories are searched first, because the first block of a graph's segment has the address of the
    // segment, which is also a block of the device's memory
    const MutexLock lock(mutex_);
    for (MemoryArena* const memory : separate_) {
      if (memory->release(data)) return;
    }
  }
  arena_.release(data);
}

MemoryArena* DeviceMemory::create_separate() {
  MemoryArena::Source source;
  source.reserve = [this](size_t bytes, void** data) { return arena_.allocate(bytes, data); };
  source.give_back = [this](void* data) { arena_.release(data); };
  source.keeps_segments = true;
  source.is_memory = arena_.is_memory();
  MemoryArena* const memory = new MemoryArena(std::move(source));
  const MutexLock lock(mutex_);
  separate_.push_back(memory);
  return memory;
}

Status DeviceMemory::destroy_separate(MemoryArena* memory) {
  const uint64_t in_use = memory->statistics().num_allocations;
  if (in_use > 0) {
    return error_status("MTL_ARGUMENT", "memory of graphs is let go of while %llu tensors or graphs have some of it",
                        static_cast<unsigned long long>(in_use));
  }
  {
    const MutexLock lock(mutex_);
    separate_.erase(std::find(separate_.begin(), separate_.end(), memory));
  }
  memory->trim();
  delete memory;
  return ok_status();
}

Status DeviceMemory::enter(MemoryArena* memory) {
  if (entered.memory != nullptr) return error_status("MTL_ARGUMENT", "memory of graphs was entered twice");
  entered = {this, memory};
  return ok_status();
}

void DeviceMemory::leave() { entered = {}; }

}  // namespace mtl

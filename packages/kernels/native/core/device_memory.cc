#include "core/device_memory.h"

namespace mtl {

DeviceMemory::DeviceMemory(MemoryArena::Source source)
    : arena_(std::move(source)), graphs_([this] {
        MemoryArena::Source segments;
        segments.reserve = [this](size_t bytes, void** data) { return arena_.allocate(bytes, data); };
        segments.give_back = [this](void* data) { arena_.release(data); };
        segments.is_memory = arena_.is_memory();
        return segments;
      }()) {}

Status DeviceMemory::allocate(size_t bytes, void** data) {
  MemoryArena* const separate = graphs_.entered();
  return (separate == nullptr ? arena_ : *separate).allocate(bytes, data);
}

void DeviceMemory::release(void* data) {
  // graph memories are searched first, because the first block in a graph's segment has the same address as
  // the segment itself, which is a block of the device's memory
  if (!graphs_.release(data)) arena_.release(data);
}

}  // namespace mtl

// Aligned memory that is reused instead of returned: a training step asks for the same sizes again and again,
// and page faults cost more than the bytes. Counts what is in use, its peak, and what is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>

#include "core/status.h"

namespace mtl {

struct MemoryStatistics {
  uint64_t bytes_in_use = 0;    // asked for and not released, rounded up to the block size
  uint64_t peak_bytes = 0;      // the highest bytes_in_use since the last reset
  uint64_t bytes_reserved = 0;  // in use and cached
  uint64_t num_allocations = 0; // live blocks
};

// Where an allocator's blocks come from.
struct BlockSource {
  void* (*reserve)(size_t bytes);  // null: there is no more
  void (*give_back)(void* data);
  bool is_memory;  // false: addresses that stand for memory, to count it
};

class CachingAllocator {
 public:
  explicit CachingAllocator(const BlockSource& source) : source_(source) {}

  // 64-byte aligned memory of at least `bytes` bytes (one block for zero bytes). Contents are undefined.
  Status allocate(size_t bytes, void** data);
  // Takes back memory of this allocator; null is ignored.
  void release(void* data);
  // Returns cached blocks to the system.
  void trim();
  MemoryStatistics statistics();
  void reset_peak();
  // Refuses allocations beyond `bytes` in use (0: no limit), so that running out of memory is an error, not a
  // kill.
  void set_limit(uint64_t bytes);

 private:
  static size_t block_size(size_t bytes);
  void free_cached();  // with the lock held

  const BlockSource source_;
  std::mutex mutex_;
  std::multimap<size_t, void*> cached_;
  std::unordered_map<void*, size_t> live_;
  MemoryStatistics statistics_;
  uint64_t limit_ = 0;
};

// The allocator of host memory, shared by the CPU and the reference backend.
CachingAllocator& host_allocator();

// Scratch memory for the length of a scope; `data` is null when there was none to be had.
class Scratch {
 public:
  explicit Scratch(size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data = nullptr;
};

}  // namespace mtl

// Allocates aligned memory and caches it for reuse, because a training step requests the same sizes again and
// again, and page faults are expensive. Counts the bytes in use, their peak, and the bytes reserved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "core/mutex.h"
#include "core/status.h"

namespace mtl {

struct MemoryStatistics {
  uint64_t bytes_in_use = 0;    // requested and not released, rounded up to the block size
  uint64_t peak_bytes = 0;      // the highest bytes_in_use since the last reset
  uint64_t bytes_reserved = 0;  // in use and cached
  uint64_t num_allocations = 0; // live blocks
};

// The source of an allocator's blocks.
struct BlockSource {
  void* (*reserve)(size_t bytes);  // null: out of memory
  void (*give_back)(void* data, size_t bytes);
  bool is_memory;  // false for addresses that only model memory, so that it can be counted
};

class CachingAllocator {
 public:
  explicit CachingAllocator(const BlockSource& source) : source_(source) {}

  // Allocates at least `bytes` bytes with an alignment of 64 bytes (a request for zero bytes also takes a
  // block). The contents are undefined.
  Status allocate(uint64_t bytes, void** data);
  // Releases memory that this allocator has allocated. Null is ignored.
  void release(void* data);
  // Returns cached blocks to the system.
  void trim();
  MemoryStatistics statistics();
  void reset_peak();
  // Rejects allocations that would exceed `bytes` bytes in use (0 means no limit), so that exhausted memory
  // causes an error instead of killing the process.
  void set_limit(uint64_t bytes);

 private:
  struct Block {
    size_t granted;  // the size of the block
    size_t counted;  // the block size of the request: the granted size or less
  };

  using Cached = std::multimap<size_t, void*>;

  static size_t block_size(size_t bytes);
  // The lock must be held for these.
  void give_back(Cached::iterator block);
  void free_cached();

  const BlockSource source_;
  Mutex mutex_;
  Cached cached_;
  std::unordered_map<void*, Block> live_;
  MemoryStatistics statistics_;
  uint64_t limit_ = 0;
};

// The allocator for host memory, which the CPU backend and the reference backend share.
CachingAllocator& host_allocator();

// Scratch memory that exists as long as its scope. `data` is null if the allocation failed.
class Scratch {
 public:
  explicit Scratch(uint64_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data = nullptr;
};

}  // namespace mtl

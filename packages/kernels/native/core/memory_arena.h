// Memory of a device (or pinned memory of the host), reserved in large segments and allocated in blocks that
// are split and merged. A training step requests the same blocks again and again, but calls the driver only
// once. Allocation is best fit. Small blocks have separate segments, so that long-lived small blocks do not
// fragment the large segments.
//
// Reuse is stream-ordered: a released block may be reused while kernels that use it are in flight, because
// its next use is enqueued after these kernels in the same stream. Users in a different stream must keep
// their memory until an event signals completion.
//
// The code is independent of CUDA: device meta-cuda counts memory with it, over addresses without memory.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>

#include "core/caching_allocator.h"
#include "core/mutex.h"

namespace mtl {

class MemoryArena {
 public:
  // Where segments come from. `reserve` fails with MTL_OUT_OF_MEMORY when memory is exhausted.
  struct Source {
    std::function<Status(size_t bytes, void** data)> reserve;
    std::function<void(void* data)> give_back;
    // True if unused segments must be kept even when memory is short, because graphs contain their addresses.
    bool keeps_segments = false;
    // Returns true if segments may be returned now. If the function is empty, segments may always be
    // returned.
    std::function<bool()> may_give_back = nullptr;
    bool is_memory = true;  // false for addresses that only model memory, so that it can be counted
  };

  explicit MemoryArena(Source source) : source_(std::move(source)) {}

  // Allocates at least `bytes` bytes with an alignment of 512 bytes (a request for zero bytes also takes a
  // block). The contents are undefined.
  Status allocate(size_t bytes, void** data);
  // Releases a block. Returns false for null and for addresses that are not allocated blocks of this arena.
  bool release(void* data);
  // Returns segments without allocated blocks to the source, if the source currently allows this.
  void trim();
  MemoryStatistics statistics();
  void reset_peak();
  // Rejects allocations that would exceed `bytes` bytes in use (0 means no limit).
  void set_limit(uint64_t bytes);
  bool is_memory() const { return source_.is_memory; }

 private:
  struct Block {
    size_t size;
    int pool;             // kSmall or kLarge
    bool is_free;
    char* segment;        // the segment of the block: blocks are merged only within it
    size_t segment_size;
  };
  using Blocks = std::map<char*, Block>;
  enum { kSmall, kLarge, kNumPools };

  Blocks::iterator find_free(size_t size, int pool);  // blocks_.end() if none fits
  Status add_segment(size_t size, int pool, Blocks::iterator* block);
  void split(Blocks::iterator block, size_t size);
  void mark_free(Blocks::iterator block);
  void trim_locked();

  const Source source_;
  Mutex mutex_;
  Blocks blocks_;
  std::set<std::pair<size_t, char*>> free_[kNumPools];
  MemoryStatistics statistics_;
  uint64_t limit_ = 0;
};

}  // namespace mtl

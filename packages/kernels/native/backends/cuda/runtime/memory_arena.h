// Memory of a device (or pinned memory of the host), taken in large segments and handed out in blocks that
// are split and joined again: a training step asks for the same blocks again and again, and the driver is
// asked once. Blocks are the best fit; small ones have segments of their own, so that those that live long do
// not cut up the large ones.
//
// Stream-ordered: a block that is released may be handed out while kernels that use it are still under way,
// because whatever uses it next is enqueued behind them in the same stream. Who uses memory in another stream
// holds it until an event says that it is done.
//
// Knows nothing of CUDA, so that it is tested without a GPU.
#pragma once

#include <map>
#include <mutex>
#include <set>

#include "core/caching_allocator.h"

namespace mtl::cuda {

class MemoryArena {
 public:
  // Where segments come from and go to. `reserve` fails with MTL_OUT_OF_MEMORY when there is no more.
  struct Source {
    Status (*reserve)(size_t bytes, void** data);
    void (*give_back)(void* data);
    // Whether what is not in use is held when memory is short, too: graphs know its addresses.
    bool keeps_segments = false;
  };

  explicit MemoryArena(Source source) : source_(source) {}

  // 512-byte aligned memory of at least `bytes` bytes (one block for zero bytes). Contents are undefined.
  Status allocate(size_t bytes, void** data);
  // Takes back a block; false for null and for what is no block of this arena that is in use.
  bool release(void* data);
  // Gives segments of which nothing is in use back.
  void trim();
  MemoryStatistics statistics();
  void reset_peak();
  // Refuses allocations beyond `bytes` in use (0: no limit).
  void set_limit(uint64_t bytes);

 private:
  struct Block {
    size_t size;
    int pool;             // of kSmall or kLarge
    bool is_free;
    char* segment;        // the block it was cut from: joined again only within it
    size_t segment_size;
  };
  using Blocks = std::map<char*, Block>;
  enum { kSmall, kLarge, kNumPools };

  Blocks::iterator find_free(size_t size, int pool);  // blocks_.end() when none fits
  Status add_segment(size_t size, int pool, Blocks::iterator* block);
  void split(Blocks::iterator block, size_t size);
  void mark_free(Blocks::iterator block);
  void trim_locked();

  const Source source_;
  std::mutex mutex_;
  Blocks blocks_;
  std::set<std::pair<size_t, char*>> free_[kNumPools];
  MemoryStatistics statistics_;
  uint64_t limit_ = 0;
};

}  // namespace mtl::cuda

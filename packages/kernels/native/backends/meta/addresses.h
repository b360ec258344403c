// Addresses without memory, for devices that compute nothing.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <iterator>
#include <map>

#include "core/mutex.h"

namespace mtl {

// Addresses for tensors without memory. They are never read or written, but they are distinct, so that views
// and overlaps of tensors can be detected. Addresses that are given back are reused, because 32-bit pointers
// have only 4 GiB of addresses.
class Addresses {
 public:
  // The addresses begin at 2^first_bit if pointers are large enough, otherwise at 4096.
  explicit Addresses(int first_bit) : next_(first_bit < 8 * static_cast<int>(sizeof(void*)) ? uintptr_t{1} << first_bit : 4096) {}

  // Returns null if none are left.
  void* take(size_t bytes) {
    const MutexLock lock(mutex_);
    uintptr_t first = next_;
    auto range = free_.begin();
    while (range != free_.end() && range->second < bytes) ++range;
    if (range != free_.end()) {
      first = range->first;
      const size_t rest = range->second - bytes;
      free_.erase(range);
      if (rest > 0) free_.emplace(first + bytes, rest);
    } else {
      if (bytes > UINTPTR_MAX - next_) return nullptr;
      next_ += bytes;
    }
    taken_.emplace(first, bytes);
    return reinterpret_cast<void*>(first);
  }

  // Gives back addresses that `take` returned, and joins them with free neighbours.
  void give_back(void* data) {
    const MutexLock lock(mutex_);
    const auto block = taken_.find(reinterpret_cast<uintptr_t>(data));
    if (block == taken_.end()) return;
    auto range = free_.emplace(*block).first;
    taken_.erase(block);
    const auto after = std::next(range);
    if (after != free_.end() && range->first + range->second == after->first) {
      range->second += after->second;
      free_.erase(after);
    }
    if (range != free_.begin()) {
      const auto before = std::prev(range);
      if (before->first + before->second == range->first) {
        before->second += range->second;
        free_.erase(range);
        range = before;
      }
    }
    if (range->first + range->second == next_) {
      next_ = range->first;
      free_.erase(range);
    }
  }

 private:
  Mutex mutex_;
  uintptr_t next_;
  std::map<uintptr_t, size_t> taken_, free_;  // bytes by first address
};

}  // namespace mtl

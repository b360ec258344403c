// A record of when operations were posted, executed and waited for, to measure overlap. It is a ring of the
// latest entries.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/operation.h"

namespace mtl::comm {

struct TraceEntry {
  int64_t group = 0;  // the group's handle
  OperationKind kind = OperationKind::kBarrier;
  int peer = -1;
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  // times in monotonic nanoseconds; 0 if the event did not happen
  int64_t posted_ns = 0;       // the operation was started by the program
  int64_t started_ns = 0;      // its execution began (the first transfer, or the wait for other members)
  int64_t done_ns = 0;         // the result was in place
  int64_t waited_from_ns = 0;  // the program requested the result
  int64_t wait_done_ns = 0;    // and received it
};

class Trace {
 public:
  explicit Trace(size_t capacity) : entries_(capacity) {}

  // Adds an entry. If the ring is full, it replaces the oldest entry.
  void add(const TraceEntry& entry) {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_[added_++ % entries_.size()] = entry;
  }

  // Returns all entries, oldest first, and the number of older entries that were dropped. The ring is then
  // empty.
  std::vector<TraceEntry> take(uint64_t* num_dropped) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<TraceEntry> taken;
    const uint64_t first = added_ > entries_.size() ? added_ - entries_.size() : 0;
    for (uint64_t index = first; index < added_; ++index) taken.push_back(entries_[index % entries_.size()]);
    *num_dropped = first;
    added_ = 0;
    return taken;
  }

 private:
  std::mutex mutex_;
  std::vector<TraceEntry> entries_;
  uint64_t added_ = 0;
};

}  // namespace mtl::comm

// The order in which a process launches collectives, over all groups: the order in which the program started
// them. All members start the operations of shared groups in the same order, so no two devices can deadlock
// on kernels of two communicators that were launched in different orders.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>

namespace mtl::comm::nccl {

class LaunchOrder {
 public:
  // Returns a new position at the end of the order.
  uint64_t enter() {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.insert(next_);
    return next_++;
  }

  // Returns whether the operation at this position is next: all earlier ones have been launched.
  bool is_first(uint64_t place) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !waiting_.empty() && *waiting_.begin() == place;
  }

  // Removes an operation that has been launched, or never will be. A second call has no effect.
  void leave(uint64_t place) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.erase(place);
  }

 private:
  std::mutex mutex_;
  std::set<uint64_t> waiting_;
  uint64_t next_ = 0;
};

}  // namespace mtl::comm::nccl

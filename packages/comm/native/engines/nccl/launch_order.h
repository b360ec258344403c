// Makes a process launch the collectives of all its groups in the order in which the program started them.
// This order prevents a deadlock: two devices that launch the kernels of two communicators in different
// orders would wait for each other. All members start the operations of their common groups in the same
// order.
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

  // Returns true if the operation at this position is next, because all earlier operations have been
  // launched.
  bool is_first(uint64_t place) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !waiting_.empty() && *waiting_.begin() == place;
  }

  // Removes an operation that has been launched or will never be launched. A second call has no effect.
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

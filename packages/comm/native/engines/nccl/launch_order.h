// The order in which a process launches collectives, over all groups: the order in which the program started
// them. All members start the operations of groups that they share in the same order, so no two devices can
// wait for each other with kernels of two communicators that came in different orders.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>

namespace mtl::comm::nccl {

class LaunchOrder {
 public:
  // A place at the end.
  uint64_t enter() {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.insert(next_);
    return next_++;
  }

  // Whether everything that was started earlier has been launched.
  bool is_first(uint64_t place) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !waiting_.empty() && *waiting_.begin() == place;
  }

  // The operation is launched or never will be. A second call does nothing.
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

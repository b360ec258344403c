// A gate in a test: a thread sleeps here until another thread opens it.
#pragma once

#include <condition_variable>
#include <mutex>

namespace mtl::comm::tests {

class Gate {
 public:
  void open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

}  // namespace mtl::comm::tests

// Streams and events of a fake device. A stream is a thread with a queue; an event counts how often it was
// recorded and how often it was reached. Streams are truly asynchronous, so that a missing dependency causes
// a wrong result or a race that ThreadSanitizer reports.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace mtl::comm::tests {

class ThreadStream {
 public:
  ThreadStream() : thread_([this] { run(); }) {}
  // Waits until all work in the stream is done.
  ~ThreadStream() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_ending_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  void enqueue(std::function<void()> task) {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }

 private:
  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> first = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      first();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool is_ending_ = false;
  std::thread thread_;  // the last member, because it uses the others
};

// An event. As in CUDA, it may be destroyed while streams still wait for it.
class ThreadEvent {
 public:
  // `enqueue(task)` puts a task into the stream that records the event or that waits for it.
  template <typename Enqueue>
  void record(const Enqueue& enqueue) {
    const std::shared_ptr<State> state = state_;
    uint64_t number;
    {
      const std::lock_guard<std::mutex> lock(state->mutex);
      number = ++state->recorded;
    }
    enqueue([state, number] {
      const std::lock_guard<std::mutex> lock(state->mutex);
      state->reached = std::max(state->reached, number);
      state->changed.notify_all();
    });
  }
  template <typename Enqueue>
  void make_wait(const Enqueue& enqueue) const {
    const std::shared_ptr<State> state = state_;
    uint64_t number;
    {
      const std::lock_guard<std::mutex> lock(state->mutex);
      number = state->recorded;
    }
    enqueue([state, number] {
      std::unique_lock<std::mutex> lock(state->mutex);
      state->changed.wait(lock, [&] { return state->reached >= number; });
    });
  }
  // Returns whether all records have been reached.
  bool is_reached() const {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->reached >= state_->recorded;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t recorded = 0, reached = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace mtl::comm::tests

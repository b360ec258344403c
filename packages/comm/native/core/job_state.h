// The abort state of a process. It stores the job's first failure with the reason. Every wait polls this
// state.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "core/status.h"

namespace mtl::comm {

class JobState {
 public:
  explicit JobState(int rank) : rank_(rank) {}
  JobState(const JobState&) = delete;
  JobState& operator=(const JobState&) = delete;

  int rank() const { return rank_; }  // global, of this process

  // A single atomic load, which is cheap enough to be polled by a spinning wait.
  bool is_aborted() const { return aborted_.load(std::memory_order_acquire); }
  // Returns the reason for the abort; success if there was no failure.
  Status reason() const;
  // Stores the reason if no reason has been stored before. Then calls every listener on the calling thread.
  void abort(Failure reason);

  // Registers a function that forwards the reason of an abort to other processes. The function is called
  // once. If the job has already been aborted, it is called immediately.
  using Listener = std::function<void(const Failure&)>;
  void on_abort(Listener listener);

 private:
  const int rank_;
  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;
  Status reason_;
  std::vector<Listener> listeners_;
};

}  // namespace mtl::comm

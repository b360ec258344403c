// The abort state of a process: the first failure is stored here with its reason, and every wait polls it.
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

  // One relaxed load: cheap enough for a spinning wait.
  bool is_aborted() const { return aborted_.load(std::memory_order_acquire); }
  // The reason; success if there was no failure.
  Status reason() const;
  // Keeps the first reason, drops later ones. Then calls every listener on the calling thread.
  void abort(Failure reason);

  // A function that forwards the reason of an abort to other processes. Called once, immediately if the job
  // has already been aborted.
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

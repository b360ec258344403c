// The abort state of a process: whatever goes wrong is written here once, with the reason, and every wait
// polls it.
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
  // Why; success while nothing went wrong.
  Status reason() const;
  // The first reason stays, later ones are dropped. Then every listener is told, on the calling thread.
  void abort(Failure reason);

  // Called once with the reason, at once if it is there already: passes it on to other processes.
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

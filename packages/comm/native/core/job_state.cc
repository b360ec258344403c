#include "core/job_state.h"

namespace mtl::comm {

Status JobState::reason() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return reason_;
}

void JobState::abort(Failure reason) {
  std::vector<Listener> listeners;
  Status stored{std::move(reason)};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!reason_.ok()) return;
    reason_ = stored;
    listeners.swap(listeners_);
    aborted_.store(true, std::memory_order_release);
  }
  for (const Listener& listener : listeners) listener(stored.failure());
}

void JobState::on_abort(Listener listener) {
  Status reason;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (reason_.ok()) {
      listeners_.push_back(std::move(listener));
      return;
    }
    reason = reason_;
  }
  listener(reason.failure());
}

}  // namespace mtl::comm

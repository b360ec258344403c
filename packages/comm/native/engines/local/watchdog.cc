#include "engines/local/watchdog.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/clock.h"
#include "platforms/platform.h"

namespace mtl::comm::local {
namespace {

constexpr int kPollMs = 50;  // the maximum delay until an abort on the board is noticed; a death is noticed at once

}  // namespace

Status Watchdog::start(JobState* job, HostBoard* board, int64_t grace_ns, std::unique_ptr<Watchdog>* watchdog) {
  std::unique_ptr<Watchdog> created(new Watchdog(job, board, grace_ns));
  created->wake_event_ = platform::create_event();
  if (created->wake_event_ < 0) return error_status("MTL_WATCHDOG", "there is no event: %s", std::strerror(errno));
  for (int index = 0; index < board->size(); ++index) {
    if (index == board->own_index()) continue;
    Peer peer{index, board->pid_of(index), -1};
    peer.end = platform::watch_process(peer.pid);
    if (peer.end >= 0) {
      created->peers_.push_back(peer);
    } else if (errno == ESRCH) {
      if (!board->has_left(index)) created->report_death(peer);
    } else {
      return error_status("MTL_WATCHDOG", "process %d cannot be watched: %s (Linux 5.3 or newer is needed)", peer.pid,
                          std::strerror(errno));
    }
  }
  created->thread_ = std::thread(&Watchdog::watch, created.get());
  *watchdog = std::move(created);
  return ok_status();
}

Watchdog::~Watchdog() {
  if (thread_.joinable()) {
    platform::raise_event(wake_event_);
    thread_.join();
  }
  for (const Peer& peer : peers_) {
    if (peer.end >= 0) close(peer.end);
  }
  if (wake_event_ >= 0) close(wake_event_);
}

void Watchdog::watch() {
  int64_t aborted_ns = 0;
  for (;;) {
    std::vector<pollfd> descriptors{{wake_event_, POLLIN, 0}};
    for (const Peer& peer : peers_) descriptors.push_back({peer.end, POLLIN, 0});
    poll(descriptors.data(), descriptors.size(), kPollMs);
    if (descriptors[0].revents != 0) return;
    // the board is read before the ends of processes are checked, so that if a rank aborts and then ends, its
    // reason is reported
    Failure reason;
    if (!job_->is_aborted() && board_->read_abort(&reason)) job_->abort(std::move(reason));
    for (size_t position = peers_.size(); position-- > 0;) {
      if (descriptors[position + 1].revents != 0) look_after(position);
    }
    if (!job_->is_aborted()) continue;
    if (aborted_ns == 0) aborted_ns = now_ns();
    if (now_ns() - aborted_ns < grace_ns_) continue;
    std::fprintf(stderr, "error[MTL_WATCHDOG]: rank %d did not end within %g s after the job failed, so it is ended: %s\n",
                 job_->rank(), static_cast<double>(grace_ns_) / 1e9, job_->reason().failure().message.c_str());
    _exit(1);
  }
}

// Handles the end of the process at `position`.
void Watchdog::look_after(size_t position) {
  const Peer peer = peers_[position];
  peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(position));
  close(peer.end);
  Failure reason;
  if (!job_->is_aborted() && board_->read_abort(&reason)) job_->abort(std::move(reason));
  if (!board_->has_left(peer.index)) report_death(peer);
}

void Watchdog::report_death(const Peer& peer) {
  Failure failure;
  failure.code = "MTL_RANK_DIED";
  failure.rank = board_->ranks()[static_cast<size_t>(peer.index)];
  failure.message = format_text("rank %d (process %d) has ended without leaving the job", failure.rank, peer.pid);
  job_->abort(std::move(failure));
}

}  // namespace mtl::comm::local

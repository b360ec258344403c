#include "engines/local/host_board.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "engines/local/shared_word.h"

namespace mtl::comm::local {
namespace {

constexpr int kMaxRanks = 256;
constexpr int kMaxPublished = 512;  // the maximum number of groups that one rank may announce as their first member
// How long to wait after a process has ended, at most, in nanoseconds, until the reason for its end is on the
// board or the watchdog has noticed its death.
constexpr int64_t kReasonNs = 1000 * kMillisecond;

struct Published {
  std::atomic<uint64_t> key;  // 0: free; written last
  SegmentAddress address;
};

struct Member {
  std::atomic<int32_t> pid;  // 0: not joined yet
  std::atomic<uint32_t> has_left;
  Published published[kMaxPublished];
};

struct Abort {
  std::atomic<uint32_t> state;  // 0 empty, 1 being written, 2 complete
  int32_t rank;
  char code[64];
  char message[1536];
};

void copy_text(char* target, size_t capacity, const std::string& text) {
  const size_t length = std::min(capacity - 1, text.size());
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
}

}  // namespace

struct HostBoard::Layout {
  Segment::Prefix prefix;
  SharedWord changes;
  Abort abort;
  Member members[kMaxRanks];
};

namespace {

// Converts the job's failure to the error of a call that waits for `operation` in the group named `group`.
Status seen_from(const Status& status, int rank, const char* group, const char* operation, int64_t started_ns) {
  if (status.ok()) return status;
  Failure failure = status.failure();
  failure.group = group;
  failure.operation = operation;
  failure.waited_ms = static_cast<double>(now_ns() - started_ns) / kMillisecond;
  failure.message = format_text("%s of %s, rank %d waited %.3f s: ", operation, group, rank, failure.waited_ms / 1000) +
                    status.failure().message;
  return Status(std::move(failure));
}

}  // namespace

Status HostBoard::prepare(JobState* job, const std::vector<int>& ranks) {
  const bool is_member = std::find(ranks.begin(), ranks.end(), job->rank()) != ranks.end();
  if (is_member && static_cast<int>(ranks.size()) <= kMaxRanks) return ok_status();
  return error_status("MTL_GROUP", "rank %d among %zu ranks of this host, expected one of at most %d", job->rank(),
                      ranks.size(), kMaxRanks);
}

Status HostBoard::create(JobState* job, std::vector<int> ranks, std::unique_ptr<HostBoard>* board) {
  MTL_RETURN_IF_ERROR(prepare(job, ranks));
  Segment segment;
  MTL_RETURN_IF_ERROR(Segment::create(sizeof(Layout), &segment));
  board->reset(new HostBoard(job, std::move(ranks), std::move(segment)));
  return ok_status();
}

Status HostBoard::open(JobState* job, std::vector<int> ranks, const SegmentAddress& address,
                       std::unique_ptr<HostBoard>* board) {
  MTL_RETURN_IF_ERROR(prepare(job, ranks));
  if (address.bytes != sizeof(Layout)) {
    return error_status("MTL_SEGMENT", "shared memory of %llu bytes, expected %zu: the ranks run different versions",
                        static_cast<unsigned long long>(address.bytes), sizeof(Layout));
  }
  Segment segment;
  MTL_RETURN_IF_ERROR(Segment::open(address, &segment));
  board->reset(new HostBoard(job, std::move(ranks), std::move(segment)));
  return ok_status();
}

std::unique_ptr<HostBoard> HostBoard::borrow(JobState* job, std::vector<int> ranks, const HostBoard& first) {
  return std::unique_ptr<HostBoard>(new HostBoard(job, std::move(ranks), Segment::borrow(first.segment_)));
}

HostBoard::HostBoard(JobState* job, std::vector<int> ranks, Segment segment)
    : job_(job),
      ranks_(std::move(ranks)),
      own_(static_cast<int>(std::find(ranks_.begin(), ranks_.end(), job->rank()) - ranks_.begin())),
      segment_(std::move(segment)),
      layout_(static_cast<Layout*>(segment_.data())) {}

HostBoard::~HostBoard() = default;

// Waits until a change of the board makes `reached()` true, until the job fails, or until the timeout.
template <typename Reached>
Status HostBoard::wait(int64_t timeout_ns, const Reached& reached, bool* is_reached) {
  const auto check = [&]() -> Status {
    Failure reason;
    if (!job_->is_aborted() && read_abort(&reason)) job_->abort(std::move(reason));
    return job_->reason();
  };
  Status failure;
  const WaitLimits limits{now_ns() + timeout_ns, nullptr};
  const WaitResult result = wait_on(&layout_->changes, limits, reached, check, &failure);
  *is_reached = result == WaitResult::kReached;
  return result == WaitResult::kFailed ? failure : ok_status();
}

Status HostBoard::join(int64_t timeout_ns) {
  layout_->members[own_].pid.store(getpid());
  layout_->changes.advance();
  const int64_t started = now_ns();
  const auto is_missing = [&](int index) { return layout_->members[index].pid.load() == 0; };
  bool is_complete = false;
  const auto all_are_there = [&] {
    for (int index = 0; index < size(); ++index) {
      if (is_missing(index)) return false;
    }
    return true;
  };
  MTL_RETURN_IF_ERROR(seen_from(wait(timeout_ns, all_are_there, &is_complete), job_->rank(), "host", "join", started));
  if (is_complete) return ok_status();
  Failure failure;
  failure.code = "MTL_TIMEOUT";
  failure.group = "host";
  failure.operation = "join";
  failure.waited_ms = static_cast<double>(now_ns() - started) / kMillisecond;
  std::string missing;
  for (int index = 0; index < size(); ++index) {
    if (!is_missing(index)) continue;
    if (failure.rank < 0) failure.rank = ranks_[static_cast<size_t>(index)];
    missing += (missing.empty() ? "" : ", ") + std::to_string(ranks_[static_cast<size_t>(index)]);
  }
  failure.message = format_text("rank %d waited %.3f s for the ranks of this host: rank %s never came", job_->rank(),
                                failure.waited_ms / 1000, missing.c_str());
  job_->abort(failure);
  return Status(std::move(failure));
}

int HostBoard::pid_of(int index) const { return layout_->members[index].pid.load(); }

Status HostBoard::publish(uint64_t key, const SegmentAddress& address) {
  for (Published& place : layout_->members[own_].published) {
    if (place.key.load() != 0) continue;
    place.address = address;
    place.key.store(key);
    layout_->changes.advance();
    return ok_status();
  }
  return error_status("MTL_GROUP", "more than %d groups that this rank is the first member of", kMaxPublished);
}

Status HostBoard::find(int index, uint64_t key, const char* what, int64_t timeout_ns, SegmentAddress* address) {
  const int64_t started = now_ns();
  Member& member = layout_->members[index];
  bool is_found = false, is_over = false;
  const auto is_published_or_left = [&] {
    const bool left = has_left(index);  // read before the board, because a rank announces a segment before it leaves
    for (Published& place : member.published) {
      if (place.key.load() != key) continue;
      *address = place.address;
      is_found = true;
    }
    return is_found || left;
  };
  MTL_RETURN_IF_ERROR(
      seen_from(wait(timeout_ns, is_published_or_left, &is_over), job_->rank(), what, "createGroup", started));
  if (is_found) return ok_status();
  if (is_over) return left(index, what);
  Failure failure;
  failure.code = "MTL_TIMEOUT";
  failure.rank = ranks_[static_cast<size_t>(index)];
  failure.group = what;
  failure.operation = "createGroup";
  failure.waited_ms = static_cast<double>(now_ns() - started) / kMillisecond;
  failure.message = format_text("rank %d waited %.3f s for rank %d to create group %s, which it never did", job_->rank(),
                                failure.waited_ms / 1000, failure.rank, what);
  job_->abort(failure);
  return Status(std::move(failure));
}

Status HostBoard::reason_for(const Status& status, int index, const char* what) {
  const int64_t started = now_ns();
  bool is_over = false;
  const auto has_left_in_order = [&] { return has_left(index); };
  MTL_RETURN_IF_ERROR(
      seen_from(wait(kReasonNs, has_left_in_order, &is_over), job_->rank(), what, "createGroup", started));
  return is_over ? left(index, what) : status;
}

Status HostBoard::left(int index, const char* what) {
  Failure failure;
  failure.code = "MTL_RANK_LEFT";
  failure.rank = ranks_[static_cast<size_t>(index)];
  failure.group = what;
  failure.operation = "createGroup";
  failure.message = format_text("rank %d has left the job and will not take part in group %s", failure.rank, what);
  job_->abort(failure);
  return Status(std::move(failure));
}

void HostBoard::write_abort(const Failure& reason) {
  Abort& abort = layout_->abort;
  uint32_t nothing = 0;
  if (!abort.state.compare_exchange_strong(nothing, 1)) return;
  abort.rank = reason.rank;
  copy_text(abort.code, sizeof(abort.code), reason.code);
  copy_text(abort.message, sizeof(abort.message), reason.message);
  abort.state.store(2);
  layout_->changes.advance();
}

bool HostBoard::read_abort(Failure* reason) const {
  const Abort& abort = layout_->abort;
  if (abort.state.load() != 2) return false;
  reason->rank = abort.rank;
  reason->code = abort.code;
  reason->message = abort.message;
  return true;
}

void HostBoard::leave() {
  layout_->members[own_].has_left.store(1);
  layout_->changes.advance();
}

bool HostBoard::has_left(int index) const { return layout_->members[index].has_left.load() != 0; }

}  // namespace mtl::comm::local

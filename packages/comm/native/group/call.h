// The circumstances of one operation of a group: whom it belongs to, how long it may wait, what stops it, and
// what is counted while it runs. Engines get one with every operation.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/job_state.h"
#include "core/operation.h"

namespace mtl::comm {

// What a group is, as errors and engines need it.
struct GroupIdentity {
  std::string name;
  std::vector<int> ranks;  // global, ascending
  int rank = 0;            // the position of this process among them
  int64_t timeout_ns = 0;  // how long an operation waits for the others

  int size() const { return static_cast<int>(ranks.size()); }
  // The positions of all ranks: 0, 1, ...
  std::vector<int> members() const;
};

struct Call {
  const GroupIdentity* group = nullptr;
  // The group as the program knows it, for errors: where `group` is a part of it that carries out a stage.
  // Null: `group`.
  const GroupIdentity* whole = nullptr;
  JobState* job = nullptr;
  const std::atomic<bool>* closing = nullptr;  // the group is being closed under the operation
  const std::function<void()>* looking = nullptr;  // called with every check, as a sign of life; null: no such function
  const Operation* operation = nullptr;
  int64_t started_ns = 0;  // the wait counts from here
  bool may_spin = false;   // false on a thread of ours: it would take the core that the main thread computes on
  uint64_t sent_bytes = 0; // given to other members: engines add to it where the bytes are handed over

  int64_t deadline_ns() const { return started_ns + group->timeout_ns; }

  // Success, or why a wait must end now: the process's abort state, or the group being closed. Does not look
  // at the clock (`timed_out` says what to return once the deadline has passed).
  Status check() const;

  // A failure of this operation that `rank` (global; -1: none) is responsible for. Gives it its group,
  // operation, sequence and waiting time, in the message and in the details, and aborts the job with it.
  Status fail(const char* code, int rank, const std::string& what) const;
  // MTL_TIMEOUT, naming the members (positions in the group) that did not come.
  Status timed_out(const std::vector<int>& late) const;
  // MTL_MISMATCH, showing what this rank called and what member `other` did.
  Status mismatch(int other, const Description& theirs) const;
  // MTL_RANK_LEFT: `member` closed the group or left the job in order, so it will never come.
  Status left(int member) const;
};

}  // namespace mtl::comm

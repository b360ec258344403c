// The context of one operation of a group: the group it belongs to, how long it may wait, what stops it, and
// what is counted while it runs. Engines receive one with every operation.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/job_state.h"
#include "core/operation.h"

namespace mtl::comm {

// The properties of a group that errors and engines need.
struct GroupIdentity {
  std::string name;
  std::vector<int> ranks;  // global, ascending
  int rank = 0;            // position of this process in `ranks`
  int64_t timeout_ns = 0;  // how long an operation waits for the others

  int size() const { return static_cast<int>(ranks.size()); }
  // The positions of all ranks: 0, 1, ...
  std::vector<int> members() const;
};

struct Call {
  const GroupIdentity* group = nullptr;
  // The group that the program created, for errors: set if `group` is a subgroup that executes one stage.
  // Null: `group` itself.
  const GroupIdentity* whole = nullptr;
  JobState* job = nullptr;
  const std::atomic<bool>* closing = nullptr;  // set to true if the group is closed during the operation
  const std::function<void()>* looking = nullptr;  // called with every check, as a sign of life; may be null
  const Operation* operation = nullptr;
  int64_t started_ns = 0;  // the start of the wait
  bool may_spin = false;   // false on an internal thread: it would use the main thread's core
  uint64_t sent_bytes = 0; // sent to other members: engines add to it where the bytes are transferred

  int64_t deadline_ns() const { return started_ns + group->timeout_ns; }

  // Returns success, or the reason why a wait must end now: the process was aborted, or the group is being
  // closed. Does not check the clock (`timed_out` returns the status for a wait past its deadline).
  Status check() const;

  // Returns a failure of this operation that `rank` caused (a global rank; -1: none in particular). Adds
  // group, operation, sequence and waiting time to the message and the details, and aborts the job with this
  // failure.
  Status fail(const char* code, int rank, const std::string& what) const;
  // Returns MTL_TIMEOUT, naming the members (positions in the group) that are missing.
  Status timed_out(const std::vector<int>& late) const;
  // Returns MTL_MISMATCH, showing the operations that this rank and member `other` started.
  Status mismatch(int other, const Description& theirs) const;
  // Returns MTL_MISMATCH for an all-to-all of unequal parts, unless the number of elements that member `from`
  // sends to member `to` is the number that `to` expects.
  Status compare_parts(int from, int to, uint64_t sent, uint64_t expected) const;
  // Returns MTL_RANK_LEFT: `member` closed the group or left the job in order, so it will never arrive.
  Status left(int member) const;
};

}  // namespace mtl::comm

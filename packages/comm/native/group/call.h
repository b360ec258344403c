// The context of one operation: its group, its time limit, the conditions that end its wait, and the counters
// that it updates. Engines receive a Call with every operation.
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
  int64_t timeout_ns = 0;  // how long an operation waits for the other members

  int size() const { return static_cast<int>(ranks.size()); }
  // The positions of all ranks: 0, 1, ...
  std::vector<int> members() const;
};

struct Call {
  const GroupIdentity* group = nullptr;
  // Null if the program created `group` itself. Otherwise, `group` is a subgroup that executes one stage of
  // an operation, and this is the group that the program created, for error messages.
  const GroupIdentity* whole = nullptr;
  JobState* job = nullptr;
  const std::atomic<bool>* closing = nullptr;  // set to true if the group is closed during the operation
  const std::function<void()>* looking = nullptr;  // called at every check, as a sign of life; may be null
  const Operation* operation = nullptr;
  int64_t started_ns = 0;  // the start of the wait
  bool may_spin = false;   // false on an internal thread, which would take the main thread's core
  uint64_t sent_bytes = 0; // the number of bytes sent to other members; engines increase it when bytes are transferred

  int64_t deadline_ns() const { return started_ns + group->timeout_ns; }

  // Returns success, or the reason why a wait must end now: the process was aborted, or the group is being
  // closed. The time is not checked; after the deadline, a wait returns `timed_out`.
  Status check() const;

  // Returns a failure of this operation that `rank` caused, a global rank or -1 for no particular rank. Adds
  // group, operation, sequence and waiting time to the message and the details, and aborts the job with this
  // failure.
  Status fail(const char* code, int rank, const std::string& what) const;
  // Returns MTL_TIMEOUT, whose message names the missing members. `late` has their positions in the group.
  Status timed_out(const std::vector<int>& late) const;
  // Returns MTL_MISMATCH, whose message shows the operations that this rank and member `other` started.
  Status mismatch(int other, const Description& theirs) const;
  // Compares the two sizes of a part in an all-to-all with unequal parts. Returns MTL_MISMATCH if `sent`, the
  // number of elements that member `from` sends to member `to`, is not `expected`, the number that `to`
  // expects.
  Status compare_parts(int from, int to, uint64_t sent, uint64_t expected) const;
  // Returns the error MTL_RANK_LEFT: `member` has closed the group or has left the job cleanly, so it will
  // not arrive.
  Status left(int member) const;
};

}  // namespace mtl::comm

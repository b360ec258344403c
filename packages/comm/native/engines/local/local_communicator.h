// The engine for one host: collectives and messages through shared memory.
//
// A collective is a sequence of steps with one barrier each. In a step, every member copies a chunk of its
// input into its own buffer and arrives at the barrier; when all have arrived, members read each other's
// buffers. Each member has three buffers, so it can fill the next buffer before it has read the latest data
// of the other members. One member's slow copy therefore overlaps with the work of other members.
//
// A large all-reduce of three or more members is divided: each member reduces one slice of the chunk, and the
// other members copy the result one step later. A member then sends `2 * (n - 1) / n` times its bytes, as in
// a ring. Sums are always computed in rank order, whatever the order of arrival, so results do not depend on
// timing and all members get the same bits.
#pragma once

#include <algorithm>

#include "engines/local/group_layout.h"
#include "engines/local/reduce.h"
#include "group/communicator.h"

namespace mtl::comm::local {

struct LocalOptions {
  uint64_t buffer_bytes = 0;      // 0: chosen by the number of members
  bool has_core_for_each = true;  // at least one core per rank of this host: waits may spin
};

class LocalCommunicator : public Communicator {
 public:
  // Creates the communicator of the first member. The other members open its `address()`.
  static Status create(const GroupIdentity& group, const LocalOptions& options,
                       std::unique_ptr<LocalCommunicator>* communicator);
  static Status open(const GroupIdentity& group, const LocalOptions& options, const SegmentAddress& address,
                     std::unique_ptr<LocalCommunicator>* communicator);
  // Creates an additional member in the process of `first`, which must outlive the new member. Both members
  // use one mapping, so that a race detector sees all accesses to the same addresses.
  static std::unique_ptr<LocalCommunicator> join(const GroupIdentity& group, const LocalOptions& options,
                                                 const LocalCommunicator& first);
  // Returns the layout of a group: its `buffer_bytes`, and the size of its segment.
  static GroupLayout layout_of(int size, const LocalOptions& options);
  ~LocalCommunicator() override;

  const SegmentAddress& address() const { return segment_.address(); }
  const char* engine() const override { return "local"; }
  Begun begin(Operation* operation, Call* call) override;
  Status execute(Operation* operation, Call* call) override;
  bool is_ready(const Operation& operation) override;
  void leave() override;

  // Tells the other members that this member is waiting for another host, or, with `now_ns` 0, that it is not
  // waiting any more. During the wait, this function is called repeatedly with the current time. Operations
  // wait up to `patience_ns` longer for such a member, since this member will find out which rank causes the
  // delay.
  void set_away(int64_t now_ns) { members_[rank_].away_ns.store(now_ns, std::memory_order_release); }
  void set_patience(int64_t patience_ns) { patience_ns_ = patience_ns; }

 private:
  // How an operation is divided into steps.
  struct Plan {
    uint64_t count = 0;       // elements of the dimension that is divided
    uint64_t chunk = 0;       // elements of that dimension per step
    uint64_t num_chunks = 1;
    bool is_sliced = false;   // true for an all-reduce that is divided into slices
    bool is_known = true;     // false, if the parts are unequal, until all members have arrived
    uint64_t num_steps() const { return is_sliced ? num_chunks + 1 : num_chunks; }
    uint64_t length(uint64_t index) const {
      const uint64_t start = index * chunk;
      return start >= count ? 0 : (count - start < chunk ? count - start : chunk);
    }
    // Returns the elements of a part of an all-to-all that are transferred in step `index`.
    ElementRange chunk_of(const ElementRange& part, uint64_t index) const {
      const uint64_t start = std::min(part.length, index * chunk);
      return {part.start + start, std::min(chunk, part.length - start)};
    }
  };
  using Range = ElementRange;

  LocalCommunicator(const GroupIdentity& group, const LocalOptions& options, Segment segment, GroupLayout layout);

  Plan plan_of(const Operation& operation) const;
  Range slice_of(uint64_t length, int member, size_t element_bytes) const;
  char* buffer(int member, uint64_t step) const;
  char* result(int member, uint64_t step) const;

  void give(const Operation& operation, const Plan& plan, uint64_t index, Call* call);
  void take(const Operation& operation, const Plan& plan, uint64_t index);
  void reduce_slice(const Operation& operation, const Plan& plan, uint64_t index, Call* call);
  void take_slices(const Operation& operation, const Plan& plan, uint64_t index);
  void copy_own_part(const Operation& operation) const;

  void arrive();
  std::vector<int> late_at(uint64_t step) const;
  bool is_away(int member, int64_t limit_ns) const;
  Status wait_for_all(uint64_t step, Call* call);
  Status compare_descriptions(const Operation& operation, Call* call);
  MemberControl::PartLengths& parts_of(int member, const Operation& operation) const;
  Status compare_parts(const Operation& operation, Call* call) const;
  uint64_t most_chunks(const Operation& operation, const Plan& plan) const;
  Status collective(Operation* operation, Call* call);

  Mailbox* mailbox(int from, int to) const;
  char* slot(Mailbox* box, uint64_t index) const;
  bool send_slots(Operation* operation, Call* call);
  Status send(Operation* operation, Call* call);
  Status receive(Operation* operation, Call* call);
  Status wait_for_message(const Operation& operation, Mailbox* box, Call* call);

  const int rank_;
  const int size_;
  const bool may_spin_;
  const GroupLayout layout_;
  Segment segment_;
  GroupHeader* header_;
  MemberControl* members_;
  // only one collective runs at a time, so these fields need no lock
  uint64_t step_ = 0;        // the next step of this member
  uint64_t first_step_ = 0;  // the first step of the collective in progress
  int64_t patience_ns_ = 0;  // extra waiting time for members that wait for another host
  Spinner spinner_;          // for the program's thread, the only thread that spins
};

}  // namespace mtl::comm::local

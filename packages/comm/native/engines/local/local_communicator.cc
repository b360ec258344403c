// Creation, steps and waits of the engine. The steps of collectives are in local_collectives.cc, messages in
// local_messages.cc.
#include "engines/local/local_communicator.h"

namespace mtl::comm::local {
namespace {

// After its timeout, a wait checks at this interval, in nanoseconds, whether members are waiting for a
// different host.
constexpr int64_t kLookNs = 50 * kMillisecond;

}  // namespace

GroupLayout LocalCommunicator::layout_of(int size, const LocalOptions& options) {
  if (options.buffer_bytes != 0) return {size, options.buffer_bytes, options.buffer_bytes};
  // If each rank has a core, chunks fit into the second-level cache. With more ranks than cores, a step costs
  // every member a time slice, so steps are fewer and larger.
  const uint64_t buffer_bytes = 1024 * 1024;
  return {size, buffer_bytes, options.has_core_for_each ? 128 * 1024 : buffer_bytes};
}

Status LocalCommunicator::create(const GroupIdentity& group, const LocalOptions& options,
                                 std::unique_ptr<LocalCommunicator>* communicator) {
  if (group.size() > kMaxMembers) {
    return error_status("MTL_GROUP", "a group of %d ranks on one host, at most %d", group.size(), kMaxMembers);
  }
  const GroupLayout layout = layout_of(group.size(), options);
  Segment segment;
  MTL_RETURN_IF_ERROR(Segment::create(layout.total_bytes(), &segment));
  // new memory is zero, which is the initial value of every counter
  GroupHeader* header = static_cast<GroupHeader*>(segment.data());
  header->size = static_cast<uint32_t>(layout.size);
  header->buffer_bytes = layout.buffer_bytes;
  header->small_chunk_bytes = layout.small_chunk_bytes;
  communicator->reset(new LocalCommunicator(group, options, std::move(segment), layout));
  return ok_status();
}

Status LocalCommunicator::open(const GroupIdentity& group, const LocalOptions& options, const SegmentAddress& address,
                               std::unique_ptr<LocalCommunicator>* communicator) {
  Segment segment;
  MTL_RETURN_IF_ERROR(Segment::open(address, &segment));
  const GroupHeader* header = static_cast<const GroupHeader*>(segment.data());
  const GroupLayout layout{group.size(), header->buffer_bytes, header->small_chunk_bytes};
  if (static_cast<int>(header->size) != group.size() || layout.total_bytes() != address.bytes) {
    return error_status("MTL_SEGMENT", "group %s has %d members here and %u in shared memory", group.name.c_str(),
                        group.size(), header->size);
  }
  communicator->reset(new LocalCommunicator(group, options, std::move(segment), layout));
  return ok_status();
}

std::unique_ptr<LocalCommunicator> LocalCommunicator::join(const GroupIdentity& group, const LocalOptions& options,
                                                           const LocalCommunicator& first) {
  return std::unique_ptr<LocalCommunicator>(
      new LocalCommunicator(group, options, Segment::borrow(first.segment_), first.layout_));
}

LocalCommunicator::LocalCommunicator(const GroupIdentity& group, const LocalOptions& options, Segment segment,
                                     GroupLayout layout)
    : rank_(group.rank),
      size_(group.size()),
      may_spin_(options.has_core_for_each),
      layout_(layout),
      segment_(std::move(segment)),
      header_(static_cast<GroupHeader*>(segment_.data())),
      members_(reinterpret_cast<MemberControl*>(static_cast<char*>(segment_.data()) + layout.controls_at())) {
  members_[rank_].is_attached.store(1);
}

LocalCommunicator::~LocalCommunicator() {
  for (int member = 0; member < size_; ++member) {
    if (members_[member].is_attached.load() == 0) segment_.leave_open();
  }
}

void LocalCommunicator::leave() {
  members_[rank_].has_left.store(1);
  header_->round.wake();
  for (int other = 0; other < size_; ++other) {
    for (Mailbox* box : {mailbox(rank_, other), mailbox(other, rank_)}) {
      box->written.wake();
      box->taken.wake();
    }
  }
}

char* LocalCommunicator::buffer(int member, uint64_t step) const {
  const uint64_t at = layout_.buffers_at() + static_cast<uint64_t>(member) * layout_.member_bytes();
  return static_cast<char*>(segment_.data()) + at + step % kNumBuffers * GroupLayout::round_up(layout_.buffer_bytes);
}

char* LocalCommunicator::result(int member, uint64_t step) const {
  const uint64_t at = layout_.buffers_at() + static_cast<uint64_t>(member) * layout_.member_bytes() +
                      kNumBuffers * GroupLayout::round_up(layout_.buffer_bytes);
  return static_cast<char*>(segment_.data()) + at + step % kNumBuffers * layout_.result_bytes();
}

void LocalCommunicator::arrive() {
  ++step_;
  members_[rank_].arrived.store(step_, std::memory_order_release);
  if (header_->arrivals.fetch_add(1) + 1 == static_cast<uint64_t>(size_) * step_) header_->round.advance();
}

// Waits until all members have arrived at `step`. Their writes before the arrival are then visible to this
// member.
Status LocalCommunicator::wait_for_all(uint64_t step, Call* call) {
  const uint64_t target = static_cast<uint64_t>(size_) * (step + 1);
  const auto reached = [&] { return header_->arrivals.load(std::memory_order_acquire) >= target; };
  const auto check = [&]() -> Status {
    MTL_RETURN_IF_ERROR(call->check());
    for (int member = 0; member < size_; ++member) {
      const bool has_left = members_[member].has_left.load() != 0;
      if (has_left && members_[member].arrived.load() <= step && member != rank_) return call->left(member);
    }
    return ok_status();
  };
  Status failure;
  int64_t deadline_ns = call->deadline_ns();
  for (;;) {
    const WaitLimits limits{deadline_ns, may_spin_ && call->may_spin ? &spinner_ : nullptr};
    const WaitResult result = wait_on(&header_->round, limits, reached, check, &failure);
    if (result == WaitResult::kReached) return ok_status();
    if (result == WaitResult::kFailed) return failure;
    // a living member checks much more often than once per `limit_ns`, half of the timeout
    const int64_t limit_ns = call->group->timeout_ns / 2;
    const std::vector<int> late = late_at(step);
    std::vector<int> blamed;
    for (const int member : late) {
      if (!is_away(member, limit_ns)) blamed.push_back(member);
    }
    if (!blamed.empty()) return call->timed_out(blamed);
    const int64_t now = now_ns();
    if (now >= call->deadline_ns() + patience_ns_) return call->timed_out(late);
    deadline_ns = std::min(now + kLookNs, call->deadline_ns() + patience_ns_);
  }
}

std::vector<int> LocalCommunicator::late_at(uint64_t step) const {
  std::vector<int> late;
  for (int member = 0; member < size_; ++member) {
    if (members_[member].arrived.load() <= step) late.push_back(member);
  }
  return late;
}

// Returns true if the member is waiting for a different host and has checked within the last `limit_ns`.
bool LocalCommunicator::is_away(int member, int64_t limit_ns) const {
  const int64_t away_ns = members_[member].away_ns.load(std::memory_order_acquire);
  return away_ns != 0 && now_ns() - away_ns < limit_ns;
}

Status LocalCommunicator::compare_descriptions(const Operation& operation, Call* call) {
  const uint64_t parity = operation.description.sequence % 2;
  for (int member = 0; member < size_; ++member) {
    const Description& theirs = members_[member].descriptions[parity];
    if (!(theirs == operation.description)) return call->mismatch(member, theirs);
  }
  return ok_status();
}

MemberControl::PartLengths& LocalCommunicator::parts_of(int member, const Operation& operation) const {
  return members_[member].parts[operation.description.sequence % 2];
}

// Compares the part sizes that senders and receivers expect. Every member compares all pairs, so all members
// report the same mismatch.
Status LocalCommunicator::compare_parts(const Operation& operation, Call* call) const {
  for (int from = 0; from < size_; ++from) {
    for (int to = 0; to < size_; ++to) {
      const uint64_t sent = parts_of(from, operation).sent[to], expected = parts_of(to, operation).received[from];
      MTL_RETURN_IF_ERROR(call->compare_parts(from, to, sent, expected));
    }
  }
  return ok_status();
}

Begun LocalCommunicator::begin(Operation* operation, Call* call) {
  if (operation->kind == OperationKind::kSend) {
    return send_slots(operation, call) ? Begun::kDone : Begun::kUnfinished;
  }
  if (operation->kind == OperationKind::kReceive) return Begun::kUnfinished;
  const Plan plan = plan_of(*operation);
  first_step_ = step_;
  operation->progress = 1;
  members_[rank_].descriptions[operation->description.sequence % 2] = operation->description;
  for (int member = 0; operation->parts != nullptr && member < size_; ++member) {
    parts_of(rank_, *operation).sent[member] = operation->part_to(member, size_).length;
    parts_of(rank_, *operation).received[member] = operation->part_from(member, size_).length;
  }
  copy_own_part(*operation);
  give(*operation, plan, 0, call);
  arrive();
  return plan.is_known && plan.num_steps() == 1 ? Begun::kHandedOver : Begun::kUnfinished;
}

bool LocalCommunicator::is_ready(const Operation& operation) {
  if (is_message(operation.kind)) return false;
  const Plan plan = plan_of(operation);
  return plan.is_known && plan.num_steps() == 1 &&
         header_->arrivals.load(std::memory_order_acquire) >= static_cast<uint64_t>(size_) * (first_step_ + 1);
}

Status LocalCommunicator::execute(Operation* operation, Call* call) {
  if (operation->kind == OperationKind::kSend) return send(operation, call);
  if (operation->kind == OperationKind::kReceive) return receive(operation, call);
  return collective(operation, call);
}

}  // namespace mtl::comm::local

// Sends and receives. Every ordered pair of members has a ring of slots, which the sender fills and the
// receiver empties.
#include <cstring>

#include "engines/local/local_communicator.h"

namespace mtl::comm::local {
namespace {

uint64_t num_slots_of(uint64_t bytes) { return bytes == 0 ? 1 : (bytes + kSlotBytes - 1) / kSlotBytes; }

}  // namespace

Mailbox* LocalCommunicator::mailbox(int from, int to) const {
  const uint64_t index = static_cast<uint64_t>(from * size_ + to);
  return reinterpret_cast<Mailbox*>(static_cast<char*>(segment_.data()) + layout_.mailboxes_at() +
                                    index * layout_.mailbox_bytes());
}

char* LocalCommunicator::slot(Mailbox* box, uint64_t index) const {
  return reinterpret_cast<char*>(box) + GroupLayout::round_up(sizeof(Mailbox)) + index % kNumSlots * kSlotBytes;
}

// Fills the slots that are free. Returns true if the whole message has been written.
bool LocalCommunicator::send_slots(Operation* operation, Call* call) {
  Mailbox* box = mailbox(rank_, operation->peer);
  const uint64_t bytes = operation->input_bytes;
  const uint64_t slots = num_slots_of(bytes);
  while (operation->progress < slots) {
    const uint32_t index = box->written.value.load(std::memory_order_relaxed);
    if (index - box->taken.value.load(std::memory_order_acquire) >= kNumSlots) return false;
    const uint64_t start = operation->progress * kSlotBytes;
    const uint64_t length = std::min(bytes - start, kSlotBytes);
    box->headers[index % kNumSlots].description = operation->description;
    if (length > 0) std::memcpy(slot(box, index), static_cast<const char*>(operation->input) + start, length);
    call->sent_bytes += length;
    operation->progress += 1;
    box->written.advance();
  }
  return true;
}

Status LocalCommunicator::send(Operation* operation, Call* call) {
  Mailbox* box = mailbox(rank_, operation->peer);
  while (!send_slots(operation, call)) MTL_RETURN_IF_ERROR(wait_for_message(*operation, box, call));
  return ok_status();
}

Status LocalCommunicator::receive(Operation* operation, Call* call) {
  Mailbox* box = mailbox(operation->peer, rank_);
  const uint64_t bytes = operation->output_bytes;
  const uint64_t slots = num_slots_of(bytes);
  while (operation->progress < slots) {
    const uint32_t index = box->taken.value.load(std::memory_order_relaxed);
    if (box->written.value.load(std::memory_order_acquire) == index) {
      MTL_RETURN_IF_ERROR(wait_for_message(*operation, box, call));
      continue;
    }
    const Description& theirs = box->headers[index % kNumSlots].description;
    if (!(theirs == operation->description)) return call->mismatch(operation->peer, theirs);
    const uint64_t start = operation->progress * kSlotBytes;
    const uint64_t length = std::min(bytes - start, kSlotBytes);
    if (length > 0) std::memcpy(static_cast<char*>(operation->output) + start, slot(box, index), length);
    operation->progress += 1;
    box->taken.advance();
  }
  return ok_status();
}

// Waits until a slot can be read (receive) or filled (send). `operation.peer` is a position in this
// communicator. The position in `call->operation` may differ, because the members of a host may belong to a
// larger group.
Status LocalCommunicator::wait_for_message(const Operation& operation, Mailbox* box, Call* call) {
  const int peer = operation.peer;
  const bool is_written = operation.kind == OperationKind::kReceive;
  SharedWord* const word = is_written ? &box->written : &box->taken;
  const auto reached = [&] {
    const uint32_t filled = box->written.value.load(std::memory_order_acquire) - box->taken.value.load(std::memory_order_acquire);
    return is_written ? filled > 0 : filled < kNumSlots;
  };
  const auto check = [&]() -> Status {
    MTL_RETURN_IF_ERROR(call->check());
    return members_[peer].has_left.load() != 0 && !reached() ? call->left(peer) : ok_status();
  };
  Status failure;
  const WaitLimits limits{call->deadline_ns(), may_spin_ && call->may_spin ? &spinner_ : nullptr};
  switch (wait_on(word, limits, reached, check, &failure)) {
    case WaitResult::kReached:
      return ok_status();
    case WaitResult::kFailed:
      return failure;
    case WaitResult::kTimedOut:
      break;
  }
  return call->timed_out({peer});
}

}  // namespace mtl::comm::local

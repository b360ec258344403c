// The layout of a group's shared memory: control words, then three buffers and three results for every
// member, then one ring of message slots for every ordered pair of members. The layout contains only offsets,
// because members map the memory at different addresses.
#pragma once

#include "core/operation.h"
#include "engines/local/segment.h"
#include "engines/local/shared_word.h"

namespace mtl::comm::local {

constexpr int kMaxMembers = 256;  // ranks of one host

struct GroupHeader {
  Segment::Prefix prefix;
  uint32_t size;
  uint64_t buffer_bytes;                         // the size of each buffer; a member has several
  uint64_t small_chunk_bytes;                    // see GroupLayout
  alignas(64) std::atomic<uint64_t> arrivals;    // the number of arrivals so far, over all members and steps
  SharedWord round;                              // advances when all members have arrived
};

// One per member.
struct alignas(64) MemberControl {
  std::atomic<uint64_t> arrived;  // steps at which this member has arrived
  std::atomic<uint32_t> has_left;
  std::atomic<uint32_t> is_attached;
  // For groups across hosts: the time of this member's latest check while it waits for a different host
  // (now_ns(), one clock per machine); otherwise 0. From this time, the other members know that this member
  // is late but not the cause of the delay. A member that has stopped does not check any more.
  std::atomic<int64_t> away_ns;
  Description descriptions[2];  // of this member's collectives; the index is the parity of the collective's number
  // the part sizes of an all-to-all with unequal parts, indexed like `descriptions`: how many elements are
  // sent to and received from each member
  struct PartLengths {
    uint64_t sent[kMaxMembers], received[kMaxMembers];
  } parts[2];
};

constexpr int kNumBuffers = 3;

// The ring that holds the messages of one ordered pair of members.
constexpr uint32_t kNumSlots = 4;
constexpr uint64_t kSlotBytes = 128 * 1024;

struct Mailbox {
  SharedWord written;  // slots filled so far
  SharedWord taken;    // slots emptied so far
  struct alignas(64) Header {
    Description description;
  } headers[kNumSlots];
};

struct GroupLayout {
  int size;
  uint64_t buffer_bytes;
  uint64_t small_chunk_bytes;  // at most this part of a buffer is used in a step, except by large operations

  // The slices of a chunk end at multiples of a cache line, so the largest slice can exceed its share by one
  // line.
  uint64_t result_bytes() const { return round_up(buffer_bytes / static_cast<uint64_t>(size) + 64); }
  uint64_t member_bytes() const { return kNumBuffers * (round_up(buffer_bytes) + result_bytes()); }
  uint64_t controls_at() const { return round_up(sizeof(GroupHeader)); }
  uint64_t buffers_at() const { return round_up(controls_at() + static_cast<uint64_t>(size) * sizeof(MemberControl)); }
  uint64_t mailboxes_at() const { return buffers_at() + static_cast<uint64_t>(size) * member_bytes(); }
  uint64_t mailbox_bytes() const { return round_up(sizeof(Mailbox)) + kNumSlots * kSlotBytes; }
  uint64_t total_bytes() const {
    return mailboxes_at() + static_cast<uint64_t>(size) * static_cast<uint64_t>(size) * mailbox_bytes();
  }

  // rounds up to whole pages, so that no page belongs to the buffers of two members
  static uint64_t round_up(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }
};

}  // namespace mtl::comm::local

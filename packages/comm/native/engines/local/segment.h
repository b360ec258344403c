// Memory that processes of one host share. Its creator keeps it open. Other processes open it using the
// creator's process id and descriptor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"

namespace mtl::comm::local {

// The address of a segment, for other processes of the host.
struct SegmentAddress {
  int32_t pid = 0;
  int32_t fd = -1;
  uint64_t nonce = 0;  // also stored at the segment's start; it differs if the process id or descriptor has been reused
  uint64_t bytes = 0;
};

class Segment {
 public:
  // The first bytes of every segment.
  struct Prefix {
    uint64_t magic;
    uint64_t nonce;
  };

  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // Creates a segment. Its memory is zero, except for the `Prefix` at the start.
  static Status create(uint64_t bytes, Segment* segment);
  // Opens a segment. Returns MTL_SEGMENT if the creator has ended, if its files are not accessible, or if the
  // address belongs to a different segment by now.
  static Status open(const SegmentAddress& address, Segment* segment);

  // Returns a segment that uses the mapping of `owner`, which keeps ownership. Used for members that are
  // threads of one process.
  static Segment borrow(const Segment& owner);

  void* data() const { return data_; }
  const SegmentAddress& address() const { return address_; }
  // Keeps the creator's descriptor open until the process ends, because other ranks may still have to open
  // the segment.
  void leave_open() { fd_ = -1; }

 private:
  void* data_ = nullptr;
  int fd_ = -1;  // the descriptor; -1 except in the creator
  bool is_borrowed_ = false;
  SegmentAddress address_;
};

}  // namespace mtl::comm::local

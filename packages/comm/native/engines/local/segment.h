// Memory shared by processes of one host: a memfd that its creator keeps open and others open through
// /proc/PID/fd. It has no name in any file system, so nothing is left behind and no limit of /dev/shm
// applies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"

namespace mtl::comm::local {

// The address of a segment for another process of the host.
struct SegmentAddress {
  int32_t pid = 0;
  int32_t fd = -1;
  uint64_t nonce = 0;  // also stored at the segment's start: reveals that the process id or descriptor was reused
  uint64_t bytes = 0;
};

class Segment {
 public:
  // The prefix of every segment.
  struct Prefix {
    uint64_t magic;
    uint64_t nonce;
  };

  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // Creates a segment: zeros after the prefix. The kernel allocates pages when they are first accessed.
  static Status create(uint64_t bytes, Segment* segment);
  // Opens a segment. @return MTL_SEGMENT if the process has ended, its files are not accessible, or the
  // segment is another one.
  static Status open(const SegmentAddress& address, Segment* segment);

  // Returns a segment with the mapping of `owner`, which keeps owning it: for members that are threads of one
  // process.
  static Segment borrow(const Segment& owner);

  void* data() const { return data_; }
  const SegmentAddress& address() const { return address_; }
  // Keeps the creator's descriptor open until the process ends: other ranks may still have to open the
  // segment.
  void leave_open() { fd_ = -1; }

 private:
  void* data_ = nullptr;
  int fd_ = -1;  // the descriptor; -1 except in the creator
  bool is_borrowed_ = false;
  SegmentAddress address_;
};

}  // namespace mtl::comm::local

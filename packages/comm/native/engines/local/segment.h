// Memory shared by processes of one host: a memfd that its creator keeps open and others reach through
// /proc/PID/fd. No name in any file system, so nothing is left behind and no limit of /dev/shm applies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"

namespace mtl::comm::local {

// Where a segment is, for another process of the host.
struct SegmentAddress {
  int32_t pid = 0;
  int32_t fd = -1;
  uint64_t nonce = 0;  // at the segment's start: a reused process id or descriptor is noticed
  uint64_t bytes = 0;
};

class Segment {
 public:
  // What every segment begins with.
  struct Prefix {
    uint64_t magic;
    uint64_t nonce;
  };

  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // Zeros after the prefix. Pages cost memory when they are first touched.
  static Status create(uint64_t bytes, Segment* segment);
  // @return MTL_SEGMENT when the process is gone, its files are not for us, or it is another segment.
  static Status open(const SegmentAddress& address, Segment* segment);

  // The same mapping, which stays the other's: for members that are threads of one process.
  static Segment borrow(const Segment& owner);

  void* data() const { return data_; }
  const SegmentAddress& address() const { return address_; }
  // Keeps the creator's descriptor open until the process ends: someone may still have to open the segment.
  void leave_open() { fd_ = -1; }

 private:
  void* data_ = nullptr;
  int fd_ = -1;  // of the creator
  bool is_borrowed_ = false;
  SegmentAddress address_;
};

}  // namespace mtl::comm::local

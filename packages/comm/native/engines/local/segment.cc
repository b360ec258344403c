#include "engines/local/segment.h"

#include <unistd.h>

#include <utility>

#include "platforms/platform.h"

namespace mtl::comm::local {
namespace {

constexpr uint64_t kMagic = 0x3130676573746c6d;  // "mltseg01"

}  // namespace

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(fd_, other.fd_);
  std::swap(is_borrowed_, other.is_borrowed_);
  std::swap(address_, other.address_);
  return *this;
}

Segment::~Segment() {
  if (data_ != nullptr && !is_borrowed_) platform::unmap_shared_memory(data_, address_.bytes);
  if (fd_ >= 0) close(fd_);
}

Status Segment::create(uint64_t bytes, Segment* segment) {
  Segment created;
  MTL_RETURN_IF_ERROR(platform::create_shared_memory(bytes, &created.fd_, &created.data_));
  created.address_ = {getpid(), created.fd_, 0, bytes};
  if (!platform::fill_with_random(&created.address_.nonce, sizeof(uint64_t))) {
    return error_status("MTL_SEGMENT", "the system has no random number for shared memory");
  }
  *static_cast<Prefix*>(created.data_) = {kMagic, created.address_.nonce};
  *segment = std::move(created);
  return ok_status();
}

Status Segment::open(const SegmentAddress& address, Segment* segment) {
  Segment opened;
  opened.address_ = address;
  if (address.bytes >= sizeof(Prefix)) {
    MTL_RETURN_IF_ERROR(platform::open_shared_memory(address.pid, address.fd, address.bytes, &opened.data_));
  }
  const Prefix* prefix = static_cast<const Prefix*>(opened.data_);
  if (prefix == nullptr || prefix->magic != kMagic || prefix->nonce != address.nonce) {
    return error_status("MTL_SEGMENT", "memory %d of process %d is not the shared memory that it should be: its process has ended",
                        address.fd, address.pid);
  }
  *segment = std::move(opened);
  return ok_status();
}

Segment Segment::borrow(const Segment& owner) {
  Segment borrowed;
  borrowed.data_ = owner.data_;
  borrowed.address_ = owner.address_;
  borrowed.is_borrowed_ = true;
  return borrowed;
}

}  // namespace mtl::comm::local

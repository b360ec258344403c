#include "engines/local/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace mtl::comm::local {
namespace {

constexpr uint64_t kMagic = 0x3130676573746c6d;  // "mltseg01"

Status failed(const char* what) {
  return error_status("MTL_SEGMENT", "%s for shared memory failed: %s", what, std::strerror(errno));
}

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
  if (data_ != nullptr && !is_borrowed_) munmap(data_, address_.bytes);
  if (fd_ >= 0) close(fd_);
}

Status Segment::create(uint64_t bytes, Segment* segment) {
  Segment created;
  created.fd_ = memfd_create("mtl-comm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (created.fd_ < 0) return failed("memfd_create");
  if (ftruncate(created.fd_, static_cast<off_t>(bytes)) != 0) return failed("ftruncate");
  // sealed, because a process that shrinks the memory would cause a SIGBUS in the other processes
  if (fcntl(created.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return failed("sealing");
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, created.fd_, 0);
  if (data == MAP_FAILED) return failed("mmap");
  created.data_ = data;
  created.address_ = {getpid(), created.fd_, 0, bytes};
  if (getrandom(&created.address_.nonce, sizeof(uint64_t), 0) != sizeof(uint64_t)) return failed("getrandom");
  *static_cast<Prefix*>(data) = {kMagic, created.address_.nonce};
  *segment = std::move(created);
  return ok_status();
}

Status Segment::open(const SegmentAddress& address, Segment* segment) {
  const std::string path = format_text("/proc/%d/fd/%d", address.pid, address.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return error_status("MTL_SEGMENT", "%s, shared memory of another rank, cannot be opened: %s", path.c_str(),
                        std::strerror(errno));
  }
  struct stat information;
  const bool has_size = fstat(fd, &information) == 0 && static_cast<uint64_t>(information.st_size) == address.bytes;
  void* data = has_size && address.bytes >= sizeof(Prefix)
                   ? mmap(nullptr, address.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                   : MAP_FAILED;
  close(fd);
  Segment opened;
  if (data != MAP_FAILED) {
    opened.data_ = data;
    opened.address_ = address;
  }
  const Prefix* prefix = static_cast<const Prefix*>(opened.data_);
  if (prefix == nullptr || prefix->magic != kMagic || prefix->nonce != address.nonce) {
    return error_status("MTL_SEGMENT", "%s is not the shared memory that it should be: its process has ended", path.c_str());
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

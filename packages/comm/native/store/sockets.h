// The TCP socket calls that the store needs.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"

namespace mtl::comm::store {

// A file descriptor that is closed exactly once.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }

  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  int release();
  void reset();

 private:
  int number_ = -1;
};

// Listens on the first free one of `ports` (0: any) of `address`. A numeric address means that interface; a
// name means every interface of its family, because a host's own name often resolves to loopback.
// MTL_STORE_ADDRESS if no port is available.
Status listen_on(const std::string& address, const std::vector<int>& ports, Descriptor* socket, int* port);
// A non-blocking connection, or the error.
Status connect_to(const std::string& address, int port, int64_t timeout_ns, Descriptor* socket);
// Non-blocking, without delay for small messages.
Descriptor accept_from(int socket, std::string* peer);

// -1: the connection is lost; else the number of bytes, 0 if it would block.
long send_some(int socket, const char* bytes, size_t count);
// The same; -1 also at end of stream.
long receive_some(int socket, char* bytes, size_t count);

}  // namespace mtl::comm::store

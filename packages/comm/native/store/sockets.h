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

// Listens at `address`, on the first free port in `ports` (0: any port). For a numeric address, only the
// interface with this address is used. For a name, every interface of the address family is used, because a
// host's own name often resolves to loopback. Returns MTL_STORE_ADDRESS if no port is available.
Status listen_on(const std::string& address, const std::vector<int>& ports, Descriptor* socket, int* port);
// Opens a non-blocking connection, or returns the error.
Status connect_to(const std::string& address, int port, int64_t timeout_ns, Descriptor* socket);
// Accepts a connection, which is then non-blocking and sends small messages without delay.
Descriptor accept_from(int socket, std::string* peer);

// Sends bytes. Returns the number of bytes sent, 0 if the call would block, -1 if the connection is lost.
long send_some(int socket, const char* bytes, size_t count);
// Receives bytes. Returns the number of bytes received, 0 if the call would block, -1 if the connection is
// lost or the stream has ended.
long receive_some(int socket, char* bytes, size_t count);

}  // namespace mtl::comm::store

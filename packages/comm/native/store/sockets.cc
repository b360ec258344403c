#include "store/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "core/clock.h"

namespace mtl::comm::store {
namespace {

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Status resolve(const std::string& address, int port, int flags, Addresses* addresses) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (result != 0) {
    return error_status("MTL_STORE_ADDRESS", "the address %s is not known here: %s", address.c_str(), gai_strerror(result));
  }
  *addresses = Addresses(found, freeaddrinfo);
  return ok_status();
}

bool is_number(const std::string& address) {
  unsigned char buffer[sizeof(in6_addr)];
  return inet_pton(AF_INET, address.c_str(), buffer) == 1 || inet_pton(AF_INET6, address.c_str(), buffer) == 1;
}

void make_any(sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_addr = in6addr_any;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_addr.s_addr = htonl(INADDR_ANY);
  }
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

void send_small_messages_at_once(int socket) {
  const int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    number_ = other.release();
  }
  return *this;
}

int Descriptor::release() {
  const int number = number_;
  number_ = -1;
  return number;
}

void Descriptor::reset() {
  if (number_ >= 0) close(number_);
  number_ = -1;
}

Status listen_on(const std::string& address, const std::vector<int>& ports, Descriptor* socket, int* port) {
  std::string tried;
  int error = 0;
  for (const int candidate : ports) {
    Addresses addresses(nullptr, freeaddrinfo);
    MTL_RETURN_IF_ERROR(resolve(address, candidate, AI_PASSIVE, &addresses));
    // a host name means every interface; "localhost" and numeric addresses mean one interface
    const bool is_any = !is_number(address) && address != "localhost";
    if (is_any) make_any(addresses->ai_addr);
    Descriptor created(::socket(addresses->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int one = 1;
    if (created.is_open()) setsockopt(created.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (created.is_open() && bind(created.get(), addresses->ai_addr, addresses->ai_addrlen) == 0 &&
        listen(created.get(), 1024) == 0) {
      *port = port_of(created.get());
      *socket = std::move(created);
      return ok_status();
    }
    error = errno;
    tried += (tried.empty() ? "" : ", ") + std::to_string(candidate);
  }
  return error_status("MTL_STORE_ADDRESS", "the store cannot listen on %s, port %s: %s", address.c_str(), tried.c_str(),
                      std::strerror(error));
}

Status connect_to(const std::string& address, int port, int64_t timeout_ns, Descriptor* socket) {
  Addresses addresses(nullptr, freeaddrinfo);
  MTL_RETURN_IF_ERROR(resolve(address, port, 0, &addresses));
  const int64_t deadline = now_ns() + timeout_ns;
  int error = 0;
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    Descriptor created(::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!created.is_open()) {
      error = errno;
      continue;
    }
    error = connect(created.get(), each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      pollfd event{created.get(), POLLOUT, 0};
      const int64_t left_ms = (deadline - now_ns()) / kMillisecond;
      socklen_t length = sizeof(error);
      if (poll(&event, 1, static_cast<int>(left_ms < 0 ? 0 : left_ms)) <= 0) {
        error = ETIMEDOUT;
      } else if (getsockopt(created.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
        error = errno;
      }
    }
    if (error != 0) continue;
    send_small_messages_at_once(created.get());
    *socket = std::move(created);
    return ok_status();
  }
  return error_status("MTL_STORE_UNREACHABLE", "%s, port %d: %s", address.c_str(), port, std::strerror(error));
}

Descriptor accept_from(int socket, std::string* peer) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  Descriptor accepted(accept4(socket, reinterpret_cast<sockaddr*>(&address), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!accepted.is_open()) return accepted;
  send_small_messages_at_once(accepted.get());
  char host[64] = "?", port[16] = "?";
  getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host, sizeof(host), port, sizeof(port),
              NI_NUMERICHOST | NI_NUMERICSERV);
  *peer = std::string(host) + ":" + port;
  return accepted;
}

long send_some(int socket, const char* bytes, size_t count) {
  const ssize_t sent = send(socket, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return sent;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

long receive_some(int socket, char* bytes, size_t count) {
  const ssize_t received = recv(socket, bytes, count, MSG_DONTWAIT);
  if (received > 0) return received;
  if (received == 0) return -1;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

}  // namespace mtl::comm::store

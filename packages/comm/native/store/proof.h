// How both ends of a connection show that they know the secret of the job without sending it: each signs the
// nonces of both, so that nothing recorded can be used again.
#pragma once

#include <string>

#include "store/message.h"

namespace mtl::comm::store {

struct Handshake {
  std::string server_nonce;  // kNonceBytes, fresh for every connection
  std::string client_nonce;
  int64_t rank = 0;
  uint64_t attempt_and_size = 0;
};

enum class Side { kClient, kServer };
std::string prove(const std::string& secret, Side side, const Handshake& handshake);

// Random bytes of the kernel; empty when it has none.
std::string random_nonce();

inline uint64_t attempt_and_size(int attempt, int world_size) {
  return static_cast<uint64_t>(static_cast<uint32_t>(attempt)) << 32 | static_cast<uint32_t>(world_size);
}

}  // namespace mtl::comm::store

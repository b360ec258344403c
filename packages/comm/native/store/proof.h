// The proof that both ends of a connection know the job's secret. The secret itself is not sent: the client
// signs both nonces, and later messages are sealed with keys derived from the secret and the nonces. Recorded
// data can therefore not be replayed.
#pragma once

#include <string>

#include "store/message.h"

namespace mtl::comm::store {

struct Handshake {
  std::string server_nonce;  // kNonceBytes, new for every connection
  std::string client_nonce;
  int64_t rank = 0;
  uint64_t attempt_and_size = 0;
};

enum class Purpose { kProof, kClientKey, kServerKey };
// Computes the client's proof, or the key that seals the messages of one side (see seal.h). The result has
// kDigestBytes bytes.
std::string derive(const std::string& secret, Purpose purpose, const Handshake& handshake);

// Returns random bytes from the kernel; empty if the kernel cannot provide any.
std::string random_nonce();

inline uint64_t attempt_and_size(int attempt, int world_size) {
  return static_cast<uint64_t>(static_cast<uint32_t>(attempt)) << 32 | static_cast<uint32_t>(world_size);
}

}  // namespace mtl::comm::store

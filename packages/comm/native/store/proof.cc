#include "store/proof.h"

#include <sys/random.h>

#include "store/sha256.h"

namespace mtl::comm::store {

std::string prove(const std::string& secret, Side side, const Handshake& handshake) {
  // the sides sign different words: a proof cannot be sent back as the other's
  std::string text = side == Side::kClient ? "mtl store client" : "mtl store server";
  text += handshake.server_nonce + handshake.client_nonce;
  for (const uint64_t value : {static_cast<uint64_t>(handshake.rank), handshake.attempt_and_size}) {
    for (int byte = 0; byte < 8; ++byte) text.push_back(static_cast<char>(value >> (8 * byte)));
  }
  const Digest digest = hmac_sha256(secret, text);
  return std::string(digest.begin(), digest.end());
}

std::string random_nonce() {
  std::string nonce(kNonceBytes, '\0');
  return getrandom(&nonce[0], nonce.size(), 0) == static_cast<ssize_t>(nonce.size()) ? nonce : std::string();
}

}  // namespace mtl::comm::store

#include "store/proof.h"

#include "platforms/platform.h"
#include "store/sha256.h"

namespace mtl::comm::store {

namespace {

// Returns a different string for each purpose, so that a proof or tag is valid for one purpose only.
const char* words_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::kProof: return "mtl store 2, proof of the client";
    case Purpose::kClientKey: return "mtl store 2, from the client";
    default: return "mtl store 2, from the server";
  }
}

}  // namespace

std::string derive(const std::string& secret, Purpose purpose, const Handshake& handshake) {
  std::string text = words_of(purpose) + handshake.server_nonce + handshake.client_nonce;
  for (const uint64_t value : {static_cast<uint64_t>(handshake.rank), handshake.attempt_and_size}) {
    for (int byte = 0; byte < 8; ++byte) text.push_back(static_cast<char>(value >> (8 * byte)));
  }
  const Digest digest = hmac_sha256(secret, text);
  return std::string(digest.begin(), digest.end());
}

std::string random_nonce() {
  std::string nonce(kNonceBytes, '\0');
  return platform::fill_with_random(&nonce[0], nonce.size()) ? nonce : std::string();
}

}  // namespace mtl::comm::store

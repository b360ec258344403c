// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104). They are used for the proof that a peer knows the job's
// secret, and to authenticate messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace mtl::comm::store {

constexpr size_t kDigestBytes = 32;
using Digest = std::array<uint8_t, kDigestBytes>;

// Computes a SHA-256 digest of bytes that are added in any number of parts.
class Sha256 {
 public:
  static constexpr size_t kBlockBytes = 64;
  void add(const void* bytes, size_t count);
  // Returns the digest of all added bytes; nothing may be added afterwards.
  Digest finish();

 private:
  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, kBlockBytes> block_{};  // bytes not yet compressed; their number is num_bytes_ modulo kBlockBytes
  uint64_t num_bytes_ = 0;
};

// Computes the HMAC of many messages with one key. The blocks of the key are compressed only once.
class HmacKey {
 public:
  explicit HmacKey(const std::string& key);
  // Starts a message: returns a hash state to which the caller adds the bytes, before it passes the state to
  // `finish`.
  Sha256 begin() const { return inner_; }
  Digest finish(Sha256 message) const;

 private:
  Sha256 inner_;
  Sha256 outer_;
};

Digest sha256(const std::string& message);
Digest hmac_sha256(const std::string& key, const std::string& message);

// These functions compare secrets or digests in a time that depends only on the length, not on the contents.
bool is_same_secret(const std::string& left, const std::string& right);
bool is_same_digest(const Digest& left, const char* right);  // kDigestBytes characters

}  // namespace mtl::comm::store

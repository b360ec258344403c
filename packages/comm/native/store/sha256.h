// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), for the proof that a connection knows the secret of its
// job. Small messages only: nothing here is tuned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace mtl::comm::store {

constexpr size_t kDigestBytes = 32;
using Digest = std::array<uint8_t, kDigestBytes>;

Digest sha256(const std::string& message);
Digest hmac_sha256(const std::string& key, const std::string& message);

// Takes equally long for all contents of the same length.
bool is_same_secret(const std::string& left, const std::string& right);

}  // namespace mtl::comm::store

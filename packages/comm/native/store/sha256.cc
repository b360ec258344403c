#include "store/sha256.h"

#include <algorithm>
#include <cstring>

namespace mtl::comm::store {
namespace {

// FIPS 180-4, 4.2.2: the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t rotate_right(uint32_t value, int count) { return (value >> count) | (value << (32 - count)); }

void compress(std::array<uint32_t, 8>& state, const uint8_t* block) {
  uint32_t words[64];
  for (int index = 0; index < 16; ++index) {
    const uint8_t* bytes = block + 4 * index;
    words[index] = static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
                   static_cast<uint32_t>(bytes[2]) << 8 | bytes[3];
  }
  for (int index = 16; index < 64; ++index) {
    const uint32_t early = words[index - 15], late = words[index - 2];
    const uint32_t sigma0 = rotate_right(early, 7) ^ rotate_right(early, 18) ^ (early >> 3);
    const uint32_t sigma1 = rotate_right(late, 17) ^ rotate_right(late, 19) ^ (late >> 10);
    words[index] = words[index - 16] + sigma0 + words[index - 7] + sigma1;
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int round = 0; round < 64; ++round) {
    const uint32_t sum1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
    const uint32_t first = h + sum1 + ((e & f) ^ (~e & g)) + kRoundConstants[round] + words[round];
    const uint32_t sum0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
    const uint32_t second = sum0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const uint32_t added[8] = {a, b, c, d, e, f, g, h};
  for (size_t index = 0; index < 8; ++index) state[index] += added[index];
}

std::string text_of(const Digest& digest) { return std::string(digest.begin(), digest.end()); }

bool is_same(const void* left, const void* right, size_t count) {
  const auto* const first = static_cast<const uint8_t*>(left);
  const auto* const second = static_cast<const uint8_t*>(right);
  volatile uint8_t difference = 0;  // volatile prevents the compiler from adding an early exit
  for (size_t index = 0; index < count; ++index) {
    difference = static_cast<uint8_t>(difference | (first[index] ^ second[index]));
  }
  return difference == 0;
}

}  // namespace

void Sha256::add(const void* bytes, size_t count) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  const size_t num_kept = num_bytes_ % kBlockBytes;
  num_bytes_ += count;
  if (num_kept > 0) {
    const size_t taken = std::min(count, kBlockBytes - num_kept);
    std::memcpy(block_.data() + num_kept, at, taken);
    if (num_kept + taken < kBlockBytes) return;
    compress(state_, block_.data());
    at += taken;
    count -= taken;
  }
  for (; count >= kBlockBytes; at += kBlockBytes, count -= kBlockBytes) compress(state_, at);
  if (count > 0) std::memcpy(block_.data(), at, count);
}

Digest Sha256::finish() {
  const uint64_t num_bits = num_bytes_ * 8;
  // the padding: a one bit, zeros up to the last 8 bytes of a block, and the number of bits
  std::array<uint8_t, kBlockBytes + 8> padding{0x80};
  const size_t num_kept = num_bytes_ % kBlockBytes;
  const size_t num_zeros = (num_kept < kBlockBytes - 8 ? kBlockBytes : 2 * kBlockBytes) - 8 - num_kept;
  for (size_t byte = 0; byte < 8; ++byte) padding[num_zeros + byte] = static_cast<uint8_t>(num_bits >> (56 - 8 * byte));
  add(padding.data(), num_zeros + 8);
  Digest digest;
  for (size_t index = 0; index < kDigestBytes; ++index) {
    digest[index] = static_cast<uint8_t>(state_[index / 4] >> (24 - 8 * (index % 4)));
  }
  return digest;
}

HmacKey::HmacKey(const std::string& key) {
  std::string inner = key.size() > Sha256::kBlockBytes ? text_of(sha256(key)) : key;
  inner.resize(Sha256::kBlockBytes, '\0');
  std::string outer = inner;
  for (char& byte : inner) byte = static_cast<char>(byte ^ 0x36);
  for (char& byte : outer) byte = static_cast<char>(byte ^ 0x5c);
  inner_.add(inner.data(), inner.size());
  outer_.add(outer.data(), outer.size());
}

Digest HmacKey::finish(Sha256 message) const {
  const Digest inner = message.finish();
  Sha256 outer = outer_;
  outer.add(inner.data(), inner.size());
  return outer.finish();
}

Digest sha256(const std::string& message) {
  Sha256 hash;
  hash.add(message.data(), message.size());
  return hash.finish();
}

Digest hmac_sha256(const std::string& key, const std::string& message) {
  const HmacKey hmac(key);
  Sha256 hash = hmac.begin();
  hash.add(message.data(), message.size());
  return hmac.finish(hash);
}

bool is_same_secret(const std::string& left, const std::string& right) {
  return left.size() == right.size() && is_same(left.data(), right.data(), left.size());
}

bool is_same_digest(const Digest& left, const char* right) { return is_same(left.data(), right, kDigestBytes); }

}  // namespace mtl::comm::store

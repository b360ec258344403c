#include "store/sha256.h"

namespace mtl::comm::store {
namespace {

constexpr size_t kBlockBytes = 64;

// FIPS 180-4, 4.2.2: fractional parts of the cube roots of the first 64 primes.
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

void compress(uint32_t state[8], const uint8_t* block) {
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
  for (int index = 0; index < 8; ++index) state[index] += added[index];
}

std::string text_of(const Digest& digest) { return std::string(digest.begin(), digest.end()); }

}  // namespace

Digest sha256(const std::string& message) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string padded = message;
  padded.push_back(static_cast<char>(0x80));
  while (padded.size() % kBlockBytes != kBlockBytes - 8) padded.push_back('\0');
  const uint64_t bits = uint64_t{message.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) padded.push_back(static_cast<char>(bits >> shift));
  for (size_t offset = 0; offset < padded.size(); offset += kBlockBytes) {
    compress(state, reinterpret_cast<const uint8_t*>(padded.data()) + offset);
  }
  Digest digest;
  for (size_t index = 0; index < kDigestBytes; ++index) {
    digest[index] = static_cast<uint8_t>(state[index / 4] >> (24 - 8 * (index % 4)));
  }
  return digest;
}

Digest hmac_sha256(const std::string& key, const std::string& message) {
  std::string block = key.size() > kBlockBytes ? text_of(sha256(key)) : key;
  block.resize(kBlockBytes, '\0');
  std::string inner = block, outer = block;
  for (char& byte : inner) byte = static_cast<char>(byte ^ 0x36);
  for (char& byte : outer) byte = static_cast<char>(byte ^ 0x5c);
  return sha256(outer + text_of(sha256(inner + message)));
}

bool is_same_secret(const std::string& left, const std::string& right) {
  if (left.size() != right.size()) return false;
  volatile uint8_t difference = 0;  // volatile: no early end may be invented
  for (size_t index = 0; index < left.size(); ++index) {
    difference = static_cast<uint8_t>(difference | (left[index] ^ right[index]));
  }
  return difference == 0;
}

}  // namespace mtl::comm::store

// Authentication of one direction of a connection. Every frame has the HMAC-SHA256 of its number and its
// bytes, under a key of this direction. A frame that was changed, repeated, dropped or inserted therefore has
// a wrong tag. A frame from the other direction or from another connection also has a wrong tag.
#pragma once

#include "store/sha256.h"

namespace mtl::comm::store {

// The remedy in the error about a frame with a wrong tag.
constexpr char kTamperingRemedy[] =
    "on the way between them, messages are changed, repeated, left out or inserted; use a network that only the "
    "job's users reach";

class Seal {
 public:
  explicit Seal(const std::string& key) : key_(key) {}

  // Returns the tag of the next frame.
  Digest next(const char* frame, size_t count) {
    uint8_t number[8];  // little-endian
    for (int byte = 0; byte < 8; ++byte) number[byte] = static_cast<uint8_t>(num_frames_ >> (8 * byte));
    ++num_frames_;
    Sha256 message = key_.begin();
    message.add(number, sizeof(number));
    message.add(frame, count);
    return key_.finish(message);
  }

 private:
  HmacKey key_;
  uint64_t num_frames_ = 0;
};

}  // namespace mtl::comm::store

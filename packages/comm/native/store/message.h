// The protocol between a store and its clients: frames with one layout for every kind of message.
//
//   length u32 | kind u8 | id u64 | number i64 | key length u32 | key | value length u32 | value | tag  (little-endian)
//
// `length` counts the bytes that follow it. Every message after the client's proof ends with a tag (seal.h).
// The hello, the join, and the rejection of a proof have no tag. A reader trusts no peer: every length is
// compared with its limit before bytes are stored, the tag is checked before any other field, and a frame
// with extra bytes is malformed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "store/seal.h"

namespace mtl::comm::store {

enum class MessageKind : uint8_t {
  kHello = 1,      // server: number = version, value = nonce
  kJoin = 2,       // client: number = rank, id = attempt << 32 | world size, value = nonce and proof
  kWelcome = 3,    // server: number = heartbeat limit in ms, id = rank that hosts the server + 1
  kRefusal = 4,    // server: number = a Refusal (below), value = reason in words
  kSet = 5,        // client: key, value; answered by kAnswer
  kGet = 6,        // client: key, number = 1 to wait for it; answered by kAnswer or kAbsent
  kAdd = 7,        // client: key, number = increment; answered by kAnswer with the sum
  kCancel = 8,     // client: no longer waits for the answer to request `id`
  kAnswer = 9,     // server: id of the request, value, number
  kAbsent = 10,    // server: the key does not exist
  kHeartbeat = 11, // both sides
  kAbort = 12,     // both sides: key = code, value = message, number = failed rank; the server answers a client's abort
  kGoodbye = 13,   // client: the end of this process will not be a failure; the server answers by closing
};
constexpr int kNumMessageKinds = 14;

enum class Refusal : int64_t {
  kSecret = 1,   // the proof was made with another secret
  kAttempt = 2,  // the store belongs to another attempt of the job: the client should try again
  kMember = 3,   // the rank has already joined or does not exist
  kLimit = 4,    // a limit was reached, or the key had already been set
};

struct Message {
  MessageKind kind = MessageKind::kHeartbeat;
  uint64_t id = 0;
  int64_t number = 0;
  std::string key;
  std::string value;
};

constexpr uint32_t kProtocolVersion = 2;
constexpr size_t kNonceBytes = 32;
constexpr size_t kMaxKeyBytes = 512;
constexpr size_t kMaxValueBytes = size_t{1} << 20;
constexpr size_t kFrameHeaderBytes = 1 + 8 + 8 + 4 + 4;  // excluding the length field
constexpr size_t kMaxFrameBytes = kFrameHeaderBytes + kMaxKeyBytes + kMaxValueBytes;
constexpr size_t kMaxStrangerFrameBytes = 256;  // limit before the connection has proved that it knows the secret

// Encodes the message as a frame, with the tag of `seal` if given. Key and value must be within their limits.
std::string encode(const Message& message, Seal* seal = nullptr);

// Splits received bytes into complete messages.
class MessageReader {
 public:
  explicit MessageReader(size_t max_frame_bytes) : max_frame_bytes_(max_frame_bytes) {}
  void set_max_frame_bytes(size_t bytes) { max_frame_bytes_ = bytes; }
  // Requires tags of `seal` on all messages from now on.
  void set_seal(const Seal& seal) { seal_ = seal; }

  enum class Result { kMessage, kNeedsMore, kMalformed, kForged };  // kForged: sent by a peer without the key
  void append(const char* bytes, size_t count) { buffer_.append(bytes, count); }
  // Reads the next message. After kMalformed and kForged nothing more can be read; `problem()` returns the
  // reason.
  Result next(Message* message);
  const char* problem() const { return problem_; }
  size_t num_buffered() const { return buffer_.size() - start_; }

 private:
  Result stop(Result result, const char* problem);
  size_t max_frame_bytes_;
  std::optional<Seal> seal_;
  Result result_ = Result::kNeedsMore;  // kMalformed or kForged once reading has stopped
  std::string buffer_;
  size_t start_ = 0;
  const char* problem_ = nullptr;
};

}  // namespace mtl::comm::store

#include "store/message.h"

namespace mtl::comm::store {
namespace {

void put(std::string* frame, uint64_t value, int num_bytes) {
  for (int byte = 0; byte < num_bytes; ++byte) frame->push_back(static_cast<char>(value >> (8 * byte)));
}

uint64_t take(const char** at, int num_bytes) {
  uint64_t value = 0;
  for (int byte = 0; byte < num_bytes; ++byte) value |= uint64_t{static_cast<uint8_t>((*at)[byte])} << (8 * byte);
  *at += num_bytes;
  return value;
}

}  // namespace

std::string encode(const Message& message, Seal* seal) {
  const size_t tag_bytes = seal == nullptr ? 0 : kDigestBytes;
  const size_t length = kFrameHeaderBytes + message.key.size() + message.value.size() + tag_bytes;
  std::string frame;
  frame.reserve(4 + length);
  put(&frame, length, 4);
  put(&frame, static_cast<uint8_t>(message.kind), 1);
  put(&frame, message.id, 8);
  put(&frame, static_cast<uint64_t>(message.number), 8);
  put(&frame, message.key.size(), 4);
  frame += message.key;
  put(&frame, message.value.size(), 4);
  frame += message.value;
  if (seal != nullptr) {
    const Digest tag = seal->next(frame.data(), frame.size());
    frame.append(tag.begin(), tag.end());
  }
  return frame;
}

MessageReader::Result MessageReader::stop(Result result, const char* problem) {
  result_ = result;
  problem_ = problem;
  buffer_.clear();
  start_ = 0;
  return result;
}

MessageReader::Result MessageReader::next(Message* message) {
  if (problem_ != nullptr) return result_;
  if (num_buffered() < 4) return Result::kNeedsMore;
  const char* const frame = buffer_.data() + start_;
  const char* at = frame;
  const size_t announced = take(&at, 4);
  const size_t tag_bytes = seal_ ? kDigestBytes : 0;
  // a peer that knows the key never sends a message of this length, so this message is forged
  const Result wrong_length = seal_ ? Result::kForged : Result::kMalformed;
  if (announced > max_frame_bytes_ + tag_bytes) return stop(wrong_length, "a message over the limit of size");
  if (announced < kFrameHeaderBytes + tag_bytes) return stop(wrong_length, "a message too short to be one");
  if (num_buffered() < 4 + announced) return Result::kNeedsMore;
  const size_t length = announced - tag_bytes;
  const char* const end = at + length;
  if (seal_ && !is_same_digest(seal_->next(frame, 4 + length), end)) {
    return stop(Result::kForged, "a message with a wrong authentication tag");
  }
  const uint64_t kind = take(&at, 1);
  if (kind == 0 || kind >= kNumMessageKinds) return stop(Result::kMalformed, "a message of unknown kind");
  message->kind = static_cast<MessageKind>(kind);
  message->id = take(&at, 8);
  message->number = static_cast<int64_t>(take(&at, 8));
  const size_t key_bytes = take(&at, 4);
  if (key_bytes > kMaxKeyBytes || key_bytes > length - kFrameHeaderBytes) {
    return stop(Result::kMalformed, "a key over the limit of size");
  }
  message->key.assign(at, key_bytes);
  at += key_bytes;
  const size_t value_bytes = take(&at, 4);
  if (value_bytes > kMaxValueBytes || at + value_bytes != end) {
    return stop(Result::kMalformed, "a value of another size than announced");
  }
  message->value.assign(at, value_bytes);
  start_ += 4 + announced;
  // unread bytes are moved only after half of the buffer has been read, so that one move serves many small
  // messages
  if (start_ * 2 >= buffer_.size()) {
    buffer_.erase(0, start_);
    start_ = 0;
  }
  return Result::kMessage;
}

}  // namespace mtl::comm::store

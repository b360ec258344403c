// Tests of the parts of the store that unauthenticated peers can reach: digests, proofs, and the message
// reader with random bytes.
#include <cstdint>

#include "store/message.h"
#include "store/proof.h"
#include "store/sha256.h"
#include "tests/native_test.h"

namespace mtl::comm::store {
namespace {

std::string hex(const Digest& digest) {
  std::string text;
  for (const uint8_t byte : digest) text += format_text("%02x", byte);
  return text;
}

// Our own random number generator, which gives the same bytes on every machine.
struct Random {
  uint64_t state;
  uint32_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33);
  }
  uint32_t below(uint32_t limit) { return next() % limit; }
};

bool is_equal(const Message& left, const Message& right) {
  return left.kind == right.kind && left.id == right.id && left.number == right.number && left.key == right.key &&
         left.value == right.value;
}

Message random_message(Random* random) {
  Message message;
  message.kind = static_cast<MessageKind>(1 + random->below(kNumMessageKinds - 1));
  message.id = uint64_t{random->next()} << 32 | random->next();
  message.number = static_cast<int64_t>(uint64_t{random->next()} << 33 | random->next());
  message.key.assign(random->below(40), static_cast<char>(random->next()));
  message.value.assign(random->below(3000), static_cast<char>(random->next()));
  return message;
}

// NIST's examples for SHA-256: the empty message, "abc", the two-block message, and a million times "a".
MTL_TEST(store_sha256_vectors) {
  EXPECT(hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT(hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT(hex(sha256(std::string(1000000, 'a'))) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// A text that is added in parts, of every size around a block, has the digest of the whole text.
MTL_TEST(store_sha256_of_parts) {
  std::string text;
  for (int index = 0; index < 200; ++index) text.push_back(static_cast<char>(index * 37));
  for (size_t size = 0; size <= text.size(); ++size) {
    const Digest whole = sha256(text.substr(0, size));
    for (size_t first = 0; first <= size; first += 7) {
      Sha256 hash;
      hash.add(text.data(), first);
      hash.add(text.data() + first, size - first);
      EXPECT(hash.finish() == whole);
    }
  }
  // texts of 55 to 64 bytes: the lengths around the end of a block
  EXPECT(hex(sha256(std::string(55, 'a'))) == "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT(hex(sha256(std::string(56, 'a'))) == "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT(hex(sha256(std::string(64, 'a'))) == "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

// RFC 4231, test cases 1, 2, 3 and 6 (a key longer than a block).
MTL_TEST(store_hmac_vectors) {
  EXPECT(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT(hex(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT(hex(hmac_sha256(std::string(20, '\xaa'), std::string(50, '\xdd'))) ==
         "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT(hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")) ==
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

MTL_TEST(store_proof_depends_on_everything) {
  const Handshake handshake{std::string(kNonceBytes, 's'), std::string(kNonceBytes, 'c'), 3, attempt_and_size(1, 4)};
  const std::string proof = derive("secret", Purpose::kProof, handshake);
  EXPECT(is_same_secret(proof, derive("secret", Purpose::kProof, handshake)));
  EXPECT(!is_same_secret(proof, derive("Secret", Purpose::kProof, handshake)));
  EXPECT(!is_same_secret(proof, derive("secret", Purpose::kServerKey, handshake)));
  EXPECT(!is_same_secret(proof, derive("secret", Purpose::kClientKey, handshake)));
  EXPECT(!is_same_secret(derive("secret", Purpose::kServerKey, handshake), derive("secret", Purpose::kClientKey, handshake)));
  Handshake other = handshake;
  other.server_nonce[31] = 'S';
  EXPECT(!is_same_secret(proof, derive("secret", Purpose::kProof, other)));
  other = handshake;
  other.client_nonce[0] = 'C';
  EXPECT(!is_same_secret(proof, derive("secret", Purpose::kProof, other)));
  other = handshake;
  other.rank = 2;
  EXPECT(!is_same_secret(proof, derive("secret", Purpose::kProof, other)));
  other = handshake;
  other.attempt_and_size = attempt_and_size(0, 4);
  EXPECT(!is_same_secret(proof, derive("secret", Purpose::kProof, other)));
  EXPECT(!is_same_secret(proof, proof.substr(1)));
  EXPECT(random_nonce().size() == kNonceBytes && random_nonce() != random_nonce());
}

MTL_TEST(store_messages_come_back_whatever_the_pieces) {
  Random random{1};
  for (int round = 0; round < 200; ++round) {
    std::vector<Message> sent;
    std::string bytes;
    for (uint32_t count = 1 + random.below(5); count > 0; --count) {
      sent.push_back(random_message(&random));
      bytes += encode(sent.back());
    }
    MessageReader reader(kMaxFrameBytes);
    size_t num_received = 0;
    for (size_t at = 0; at < bytes.size();) {
      const size_t part = std::min<size_t>(1 + random.below(700), bytes.size() - at);
      reader.append(bytes.data() + at, part);
      at += part;
      Message message;
      while (reader.next(&message) == MessageReader::Result::kMessage) {
        EXPECT(num_received < sent.size() && is_equal(message, sent[num_received]));
        ++num_received;
      }
      EXPECT(reader.problem() == nullptr);
    }
    EXPECT(num_received == sent.size());
    EXPECT(reader.num_buffered() == 0);
  }
}

// Flips every bit of a sealed message: the reader never accepts it, however much data follows. It also
// rejects messages that are dropped, repeated, swapped or sealed with another key.
MTL_TEST(store_reader_refuses_what_the_holder_of_the_key_did_not_send) {
  using Result = MessageReader::Result;
  const std::string key(kDigestBytes, 'k');
  Seal seal(key);
  std::vector<std::string> frames;
  for (int count = 0; count < 3; ++count) {
    Message message;
    message.id = static_cast<uint64_t>(count);
    message.key = "key";
    message.value.assign(70, 'v');
    frames.push_back(encode(message, &seal));
  }
  const std::string rest = frames[2] + std::string(kMaxFrameBytes + kDigestBytes, 'x');
  // returns why the reader stops; `num_messages`: how many messages it accepts before
  const auto read = [&](const std::string& bytes, const std::string& with_key, int* num_messages) {
    MessageReader reader(kMaxFrameBytes);
    reader.set_seal(Seal(with_key));
    reader.append(bytes.data(), bytes.size());
    Message message;
    Result result;
    for (*num_messages = 0; (result = reader.next(&message)) == Result::kMessage;) ++*num_messages;
    return result;
  };
  int num_messages = 0;
  EXPECT(read(frames[0] + frames[1] + frames[2], key, &num_messages) == Result::kNeedsMore && num_messages == 3);
  for (size_t bit = 0; bit < 8 * frames[1].size(); ++bit) {
    std::string changed = frames[1];
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    EXPECT(read(frames[0] + changed + rest, key, &num_messages) == Result::kForged && num_messages == 1);
  }
  EXPECT(read(frames[0] + frames[2], key, &num_messages) == Result::kForged && num_messages == 1);
  EXPECT(read(frames[0] + frames[0] + frames[1], key, &num_messages) == Result::kForged && num_messages == 1);
  EXPECT(read(frames[0] + frames[2] + frames[1], key, &num_messages) == Result::kForged && num_messages == 1);
  EXPECT(read(frames[0] + frames[1].substr(1) + rest, key, &num_messages) == Result::kForged && num_messages == 1);
  EXPECT(read(frames[0] + encode(Message{}) + rest, key, &num_messages) == Result::kForged && num_messages == 1);
  EXPECT(read(frames[0], std::string(kDigestBytes, 'K'), &num_messages) == Result::kForged && num_messages == 0);
}

MTL_TEST(store_reader_refuses_what_is_over_its_limits) {
  Message message;
  message.value.assign(300, 'v');
  const std::string frame = encode(message);
  MessageReader stranger(kMaxStrangerFrameBytes);
  stranger.append(frame.data(), 4);  // only the length: the reader does not wait for a message that large
  EXPECT(stranger.next(&message) == MessageReader::Result::kMalformed);
  EXPECT(stranger.num_buffered() == 0);

  Message long_key;
  long_key.key.assign(kMaxKeyBytes + 1, 'k');
  const std::string second = encode(long_key);
  MessageReader reader(kMaxFrameBytes);
  reader.append(second.data(), second.size());
  EXPECT(reader.next(&message) == MessageReader::Result::kMalformed);
  reader.append(frame.data(), frame.size());
  EXPECT(reader.next(&message) == MessageReader::Result::kMalformed);  // stays malformed
}

// Feeds the reader valid streams with bytes changed, cut, duplicated and shuffled, and random streams. The
// reader never stores more than the limit, never reads beyond the received bytes (checked by the sanitizers
// of this build), and accepts only messages within its limits.
MTL_TEST(store_reader_survives_any_bytes) {
  Random random{2};
  int num_malformed = 0, num_messages = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (uint32_t count = random.below(4); count > 0; --count) bytes += encode(random_message(&random));
    if (random.below(4) == 0) bytes += std::string("GET / HTTP/1.1\r\n\r\n");
    for (uint32_t count = random.below(6); count > 0 && !bytes.empty(); --count) {
      const size_t at = random.below(static_cast<uint32_t>(bytes.size()));
      switch (random.below(4)) {
        case 0: bytes[at] = static_cast<char>(random.next()); break;
        case 1: bytes.erase(at, random.below(20)); break;
        case 2: bytes.insert(at, 1 + random.below(9), static_cast<char>(random.next())); break;
        default: bytes.resize(at); break;
      }
    }
    if (random.below(8) == 0) {
      for (char& byte : bytes) byte = static_cast<char>(random.next());
    }
    MessageReader reader(random.below(2) == 0 ? kMaxFrameBytes : kMaxStrangerFrameBytes);
    for (size_t at = 0; at < bytes.size();) {
      const size_t part = std::min<size_t>(1 + random.below(999), bytes.size() - at);
      // allocates exactly the received size, so that a read beyond it is also beyond the allocation
      const std::vector<char> exact(bytes.begin() + static_cast<long>(at), bytes.begin() + static_cast<long>(at + part));
      reader.append(exact.data(), exact.size());
      at += part;
      Message message;
      MessageReader::Result result;
      while ((result = reader.next(&message)) == MessageReader::Result::kMessage) {
        ++num_messages;
        EXPECT(message.key.size() <= kMaxKeyBytes && message.value.size() <= kMaxValueBytes);
        EXPECT(static_cast<int>(message.kind) > 0 && static_cast<int>(message.kind) < kNumMessageKinds);
      }
      if (result == MessageReader::Result::kMalformed) {
        ++num_malformed;
        break;
      }
    }
  }
  // the test covers both outcomes
  EXPECT(num_malformed > 1000 && num_messages > 1000);
}

}  // namespace
}  // namespace mtl::comm::store

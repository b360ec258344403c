// An operation that a member of a group requests, and its description, which members compare before data is
// transferred.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mtl/dtype.h"

namespace mtl::comm {

// The values are part of the ABI that is shared with TypeScript (see src/native/native-group.ts).
enum class OperationKind : int32_t {
  kAllReduce = 0,
  kAllGather = 1,
  kReduceScatter = 2,
  kBroadcast = 3,
  kAllToAll = 4,
  kSend = 5,
  kReceive = 6,
  kBarrier = 7,
};
constexpr int kNumOperationKinds = 8;
const char* name_of(OperationKind kind);

enum class Reduction : int32_t { kSum = 0, kMaximum = 1, kMinimum = 2 };

// The device of an operation's tensors.
enum class Memory : int32_t { kHost, kDevice };

inline bool is_message(OperationKind kind) {
  return kind == OperationKind::kSend || kind == OperationKind::kReceive;
}

// A range of consecutive elements of a tensor.
struct ElementRange {
  uint64_t start = 0, length = 0;
};

// The unequal parts of an all-to-all, by position in the group. `sent` has the range of the input that goes
// to each member. `received` has the range of the output that comes from each member.
struct Parts {
  std::vector<ElementRange> sent, received;

  // Makes consecutive parts of these lengths.
  static Parts of(const std::vector<uint64_t>& sent, const std::vector<uint64_t>& received);
};

// The `count` of an all-to-all with unequal parts. It is a fixed value, because only the two members of a
// pair know the size of their part.
constexpr uint64_t kUnequalParts = ~uint64_t{0};

// Plain data that is stored in shared memory and sent in packets. All members of an operation must have equal
// descriptions; otherwise the operation is rejected.
struct Description {
  uint64_t sequence = 0;  // number among the group's collectives, or among one direction's messages of a pair; from 0
  uint64_t count = 0;     // elements that one member contributes (whole tensor, or its input)
  OperationKind kind = OperationKind::kBarrier;  // a message has kSend on both sides
  DType dtype = DType::kFloat32;
  Reduction reduction = Reduction::kSum;
  int32_t root = -1;  // of a broadcast; -1: none

  bool operator==(const Description& other) const {
    return sequence == other.sequence && count == other.count && kind == other.kind && dtype == other.dtype &&
           reduction == other.reduction && root == other.root;
  }
};

// Formats a description, for example "allReduce sum float32 1024".
std::string to_text(const Description& description);

struct Operation {
  OperationKind kind = OperationKind::kBarrier;
  Description description;
  Memory memory = Memory::kHost;
  int peer = -1;                // the other member of a message: a position in the group
  const void* input = nullptr;  // this member's contribution; the tensor itself for in-place operations
  void* output = nullptr;       // destination of the result; equal to `input` for in-place operations
  size_t input_bytes = 0;
  size_t output_bytes = 0;
  std::shared_ptr<const Parts> parts;  // of an all-to-all; null: equal parts
  uint64_t progress = 0;  // set by the engine: how much `begin` has done

  // `part_to` returns the elements of the input that an all-to-all among `size` members sends to `member`.
  // `part_from` returns the elements of the output that it receives from `member`.
  ElementRange part_to(int member, int size) const;
  ElementRange part_from(int member, int size) const;
  // Returns the operation's kind and sequence number for error messages, such as "collective 12" or "message
  // 3".
  std::string sequence_text() const;
};

}  // namespace mtl::comm

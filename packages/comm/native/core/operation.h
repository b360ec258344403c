// What a member of a group asks for: an operation with its memory, and the description of it that members
// compare before any of its bytes move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "mtl/dtype.h"

namespace mtl::comm {

// The numbers are part of the ABI with TypeScript (src/native/native-group.ts).
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

// Where the tensors of an operation live.
enum class Memory : int32_t { kHost, kDevice };

inline bool is_message(OperationKind kind) {
  return kind == OperationKind::kSend || kind == OperationKind::kReceive;
}

// Plain data that lies in shared memory and travels in packets: equal on all members, or the operation is
// refused.
struct Description {
  uint64_t sequence = 0;  // of the group's collectives, or of the messages of one pair in one direction; from 0
  uint64_t count = 0;     // elements of one member's contribution (whole tensor; input)
  OperationKind kind = OperationKind::kBarrier;  // kSend on both sides of a message
  DType dtype = DType::kFloat32;
  Reduction reduction = Reduction::kSum;
  int32_t root = -1;  // of a broadcast

  bool operator==(const Description& other) const {
    return sequence == other.sequence && count == other.count && kind == other.kind && dtype == other.dtype &&
           reduction == other.reduction && root == other.root;
  }
};

// "allReduce sum float32 1024"
std::string to_text(const Description& description);

struct Operation {
  OperationKind kind = OperationKind::kBarrier;
  Description description;
  Memory memory = Memory::kHost;
  int peer = -1;                // position in the group: the other end of a message
  const void* input = nullptr;  // what this member contributes; the tensor itself for operations in place
  void* output = nullptr;       // where the result goes; equal to `input` for operations in place
  size_t input_bytes = 0;
  size_t output_bytes = 0;
  uint64_t progress = 0;  // the engine's note of how far `begin` came

  // "collective 12" or "message 3", as errors call it.
  std::string sequence_text() const;
};

}  // namespace mtl::comm

// Names for the operand indices of rotary_embedding. The contract is in rotary_embedding.cc.
#pragma once

#include "core/op_call.h"

namespace mtl {

struct RotaryEmbedding {
  enum Tensors { kOutput, kInput, kPositions, kTable };
  enum Attributes { kInterleaved, kInverse };
};

}  // namespace mtl

// The operands of rotary_embedding by name; the contract is in rotary_embedding.cc.
#pragma once

#include "core/op_call.h"

namespace mtl {

struct RotaryEmbedding {
  enum Tensors { kOutput, kInput, kPositions, kTable };
  enum Attributes { kInterleaved, kInverse };
};

}  // namespace mtl

// Names for the operand indices of embedding_forward and _backward. The contract is in embedding.cc.
#pragma once

namespace mtl {

struct EmbeddingForward {
  enum Tensors { kOutput, kIds, kTable };
  enum Attributes { kFirstRow, kAccumulate, kNumRows };
};
struct EmbeddingBackward {
  enum Tensors { kTableGradient, kOutputGradient, kIds };
  enum Attributes { kFirstRow, kNumRows };
};

}  // namespace mtl

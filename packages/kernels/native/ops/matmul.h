// Names for the operand indices of matmul, and the sizes that follow from the operands. The contract is in
// matmul.cc.
#pragma once

#include "core/op_call.h"

namespace mtl {

struct Matmul {
  enum Tensors { kOutput, kLeft, kRight, kBias };
  enum Attributes { kTransposeLeft, kTransposeRight, kAccumulate };
};

struct MatmulSizes {
  int64_t batch = 1, rows = 0, columns = 0, inner = 0;
};

// Returns the sizes of a call. The op's validation must have accepted the call.
MatmulSizes matmul_sizes(const OpCall& call);

}  // namespace mtl

// Names for the operand indices of elementwise ops. The contract is in elementwise.cc.
#pragma once

namespace mtl {

struct Cast {
  enum Tensors { kOutput, kInput };
};
struct Scale {
  enum Tensors { kOutput, kInput };
  enum Attributes { kFactor, kAccumulate };
};
struct Add {
  enum Tensors { kOutput, kLeft, kRight };
};

}  // namespace mtl

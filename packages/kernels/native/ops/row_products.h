// Names for the operand indices of row_products. The contract is in row_products.cc.
#pragma once

namespace mtl {

struct RowProducts {
  enum Tensors { kOutput, kLeft, kRight, kWeight };
};

}  // namespace mtl

// The operands of row_products by name; the contract is in row_products.cc.
#pragma once

namespace mtl {

struct RowProducts {
  enum Tensors { kOutput, kLeft, kRight, kWeight };
};

}  // namespace mtl

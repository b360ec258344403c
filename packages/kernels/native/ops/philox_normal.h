// The operands of philox_normal by name; the contract is in philox_normal.cc.
#pragma once

namespace mtl {

struct PhiloxNormal {
  enum Tensors { kOutput };
  enum Attributes { kMean, kStandardDeviation, kKeyLow, kKeyHigh, kGlobalColumns, kRowOffset, kColumnOffset };
};

}  // namespace mtl

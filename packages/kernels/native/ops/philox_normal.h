// Names for the operand indices of philox_normal. The contract is in philox_normal.cc.
#pragma once

namespace mtl {

struct PhiloxNormal {
  enum Tensors { kOutput };
  enum Attributes { kMean, kStandardDeviation, kKeyLow, kKeyHigh, kGlobalColumns, kRowOffset, kColumnOffset };
};

}  // namespace mtl

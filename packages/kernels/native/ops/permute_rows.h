// Names for the operand indices of permute_rows and combine_rows. The contract is in permute_rows.cc.
#pragma once

namespace mtl {

struct PermuteRows {
  enum Tensors { kOutput, kInput, kSources };
  enum Attributes { kTopK };
};
struct CombineRows {
  enum Tensors { kOutput, kRows, kPositions };
};

}  // namespace mtl

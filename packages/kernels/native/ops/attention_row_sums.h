// The operands of attention_row_sums by name, and the positions of its rows; the contract is in
// attention_row_sums.cc.
#pragma once

#include "core/host_device.h"
#include "core/op_call.h"

namespace mtl {

struct AttentionRowSums {
  enum Tensors { kRowSums, kOutput, kOutputGradient };
};

// Rows of `head_size` elements. At each position, there is one row for each head of each sample.
struct SummedRows {
  int64_t positions, heads;  // heads of all samples
  int64_t head_size;

  MTL_HOST_DEVICE int64_t count() const { return positions * heads; }
  // Returns the index of a row's sum in rowSums.
  MTL_HOST_DEVICE int64_t sum_at(int64_t row) const { return row % heads * positions + row / heads; }
};

SummedRows summed_rows_of(const OpCall& call);

}  // namespace mtl

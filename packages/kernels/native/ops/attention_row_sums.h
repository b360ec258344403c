// Names for the operand indices of attention_row_sums, and the order of its rows. The contract is in
// attention_row_sums.cc.
#pragma once

#include "core/host_device.h"
#include "core/op_call.h"

namespace mtl {

struct AttentionRowSums {
  enum Tensors { kRowSums, kOutput, kOutputGradient };
};

// Rows of `head_size` elements. At each position, every head of every sample has one row.
struct SummedRows {
  int64_t positions, heads;  // heads of all samples
  int64_t head_size;

  MTL_HOST_DEVICE int64_t count() const { return positions * heads; }
  // Returns the index in rowSums of the sum of row `row`.
  MTL_HOST_DEVICE int64_t sum_at(int64_t row) const { return row % heads * positions + row / heads; }
};

SummedRows summed_rows_of(const OpCall& call);

}  // namespace mtl

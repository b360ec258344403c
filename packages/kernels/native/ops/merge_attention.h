// Names for the operand indices of merge_attention, and the order of its rows. The contract is in
// merge_attention.cc.
#pragma once

#include "core/host_device.h"
#include "core/op_call.h"

namespace mtl {

struct MergeAttention {
  enum Tensors { kOutput, kLogSumExp, kPartOutput, kPartLogSumExp };
};

// The rows of an output (one for each position, sample and head, in this order), and the strides of their
// statistics, in elements. The strides lead from one sample or head to the next; the statistics of
// neighbouring positions are adjacent in memory.
struct MergedRows {
  int64_t count, head_size;
  int64_t batch, heads;
  int64_t sample, head;            // in logSumExp
  int64_t part_sample, part_head;  // in partLogSumExp
};

MergedRows merged_rows_of(const OpCall& call);

// The indices of a row's statistics: `whole` is the index in logSumExp, and `part` the index in
// partLogSumExp.
struct MergedStatistics {
  int64_t whole, part;
};
MTL_HOST_DEVICE static inline MergedStatistics statistics_of_row(const MergedRows& rows, int64_t row) {
  const int64_t head = row % rows.heads, sample = row / rows.heads % rows.batch, position = row / rows.heads / rows.batch;
  return {sample * rows.sample + head * rows.head + position, sample * rows.part_sample + head * rows.part_head + position};
}

}  // namespace mtl

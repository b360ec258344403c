// Names for the operand indices of the attention sink ops, and the order of their rows. The contract is in
// attention_sink.cc.
#pragma once

#include "core/op_call.h"

namespace mtl {

struct AttentionSinkForward {
  enum Tensors { kOutput, kLogSumExp, kSinks };
};
struct AttentionSinkBackward {
  enum Tensors { kSinksGradient, kRowSums, kLogSumExp, kSinks };
};

// The rows of an output [S, B, A, E] or [T, A, E]. There is one row for each position, sample and head, in
// this order.
struct SinkRows {
  int64_t count, value_size;
  int64_t positions, batch, heads;

  int64_t head_of(int64_t row) const { return row % heads; }
  // Returns the index of a row's value in the statistics [B, A, S] or [A, T].
  int64_t statistics_of(int64_t row) const {
    const int64_t head = row % heads, sample = row / heads % batch, position = row / heads / batch;
    return (sample * heads + head) * positions + position;
  }
};

SinkRows sink_rows_of(const OpCall& call);

}  // namespace mtl

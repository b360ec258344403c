// The attention ops and their kernels: the names of operands and attributes, and the one problem that every
// path computes. The contract is in attention.cc.
#pragma once

#include "core/op_call.h"
#include "core/philox.h"

namespace mtl {

// Of both ops.
struct AttentionAttributes {
  enum Attributes {
    kCausal,
    kWindowSize,
    kFirstQuery,
    kFirstKey,
    kScale,
    kDropoutProbability,
    kKeyLow,
    kKeyHigh,
    kHeadOffset,
    kLongest,
    kNumScores
  };
};
struct AttentionForward : AttentionAttributes {
  enum Tensors { kOutput, kLogSumExp, kQuery, kKey, kValue, kKeyStart, kKeyMask, kStarts, kSamples };
};
struct AttentionBackward : AttentionAttributes {
  enum Tensors {
    kQueryGradient,
    kKeyGradient,
    kValueGradient,
    kOutputGradient,
    kOutput,
    kLogSumExp,
    kQuery,
    kKey,
    kValue,
    kKeyStart,
    kKeyMask,
    kStarts,
    kSamples
  };
};

// logSumExp of a query without visible keys. The log of an empty sum is -infinity; a finite value keeps every
// difference of two of them free of NaN, and e^(this - any realistic value) is still 0.
constexpr double kEmptyLogSumExp = -1e30;

// The window of a problem without one: more than any position, and half the range of 32 bits.
constexpr int64_t kNoWindow = int64_t{1} << 30;

// The rows of head_size contiguous elements that one operand has for every position of every head, by their
// strides in elements. Heads form groups of R = A / G: head a is member a % R of group a / R. All members of
// a group share the rows of a key or value: its `member` stride is 0.
struct AttentionOperand {
  void* data;
  DType dtype;
  int64_t position, sample, group, member;
};

// One call of an attention op, forward or backward: S query positions, B samples, A query heads in G groups,
// each with one key and one value head, D head size, K key positions.
struct AttentionProblem {
  DType dtype;  // of query, key and value; kernels use it for all operands
  int64_t num_queries, num_keys;  // S and K; with packed samples at least those of the longest
  int64_t batch, heads, groups, head_size;
  AttentionOperand query, key, value, output;
  void* log_sum_exp;  // [B, A, S] or, with packed samples, [A, T]; null if not requested
  // Backward only; null data otherwise.
  AttentionOperand output_gradient, query_gradient, key_gradient, value_gradient;
  // Which keys a query attends to: all that none of these hides. Positions are those of the sequence.
  int64_t first_query, first_key;  // of query 0 and key 0
  bool causal;               // none after its own position
  int64_t window;            // none more than so many positions before its own; or kNoWindow
  const int32_t* key_start;  // [B, S]: none before this one; or null
  const uint8_t* key_mask;   // [B, K]: none where it is 0; or null
  // Packed samples: sample b has the rows starts[b] to starts[b + 1] of T, and operands have no sample
  // dimension.
  const int32_t* starts;  // [B + 1], or null
  int64_t rows;           // T
  int64_t num_scores;     // the sum of the squares of all lengths
  // Dropout: requires samples.
  double scale, dropout_probability;
  PhiloxKey philox_key;
  const int64_t* samples;  // [B], or null
  int64_t head_offset;
};

// Of a validated call.
AttentionProblem attention_forward_problem(const OpCall& call);
AttentionProblem attention_backward_problem(const OpCall& call);

// For kernels that compute on the host; does nothing without packed samples. Checks that starts are
// ascending, within the rows and those of num_scores, and writes the results of rows that belong to no
// sample.
Status prepare_packed_rows(const OpCall& call, const AttentionProblem& problem);

// The position of query 0 among the keys; below 0 where it is before all of them.
MTL_HOST_DEVICE static inline int64_t first_position_of(const AttentionProblem& problem) {
  return problem.first_query - problem.first_key;
}

// The positions of a sample.
MTL_HOST_DEVICE static inline int64_t length_of(const AttentionProblem& problem, int64_t batch, int64_t padded) {
  return problem.starts == nullptr ? padded : problem.starts[batch + 1] - problem.starts[batch];
}

// The first element of a head's rows.
MTL_HOST_DEVICE static inline int64_t head_at(const AttentionProblem& problem, const AttentionOperand& operand,
                                              int64_t batch, int64_t head) {
  const int64_t members = problem.heads / problem.groups;
  const int64_t sample = problem.starts == nullptr ? batch * operand.sample : problem.starts[batch] * operand.position;
  return sample + head / members * operand.group + head % members * operand.member;
}

// A head's first element in log_sum_exp.
MTL_HOST_DEVICE static inline int64_t statistics_at(const AttentionProblem& problem, int64_t batch, int64_t head) {
  if (problem.starts != nullptr) return head * problem.rows + problem.starts[batch];
  return (batch * problem.heads + head) * problem.num_queries;
}

}  // namespace mtl

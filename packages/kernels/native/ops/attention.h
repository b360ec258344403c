// The attention ops and their kernels: names for the indices of operands and attributes, and the description
// of a call that all kernels read. The contract is in attention.cc.
#pragma once

#include "core/philox.h"
#include "ops/visibility.h"

namespace mtl {

struct AttentionForward {
  enum Tensors {
    kOutput,
    kLogSumExp,
    kHighestScores,
    kQuery,
    kKey,
    kValue,
    MTL_VISIBILITY_TENSORS(MTL_CONSTANT_OF)
    kSamples
  };
  enum Attributes {
    MTL_VISIBILITY_ATTRIBUTES(MTL_CONSTANT_OF)
    kScale,
    kSoftCap,
    kDropoutProbability,
    kKeyLow,
    kKeyHigh,
    kHeadOffset
  };
};
struct AttentionBackward {
  enum Tensors {
    kQueryGradient,
    kKeyGradient,
    kValueGradient,
    kOutputGradient,
    kRowSums,
    kLogSumExp,
    kQuery,
    kKey,
    kValue,
    MTL_VISIBILITY_TENSORS(MTL_CONSTANT_OF)
    kSamples
  };
  enum Attributes {
    MTL_VISIBILITY_ATTRIBUTES(MTL_CONSTANT_OF)
    kScale,
    kSoftCap,
    kDropoutProbability,
    kKeyLow,
    kKeyHigh,
    kHeadOffset,
    kAccumulate
  };
};

// The logSumExp of a query without visible keys. The log of an empty sum would be -infinity. A finite value
// is used instead, because the difference of two such values is then not NaN, and e^(this value - any
// realistic value) is still 0.
constexpr double kEmptyLogSumExp = -1e30;

// The layout of an operand. Every head has a row of head_size or value_size contiguous elements at every
// position, and strides in elements lead to the row. Heads form groups of R = A / G: head a is member a % R
// of group a / R. All members of a group share the rows of a key or value, whose `member` stride is 0.
struct AttentionOperand {
  void* data;
  DType dtype;
  int64_t position, sample, group, member;
  const int32_t* starts;  // starts of packed samples in its rows; or null
};

// One call of an attention op, forward or backward. There are S query positions, K key positions, B samples,
// and A query heads in G groups; each group has one key head and one value head.
struct AttentionProblem : Visibility {
  DType dtype;  // of query, key, value and outputGradient; the other tensors have it or are float32
  int64_t heads, groups;
  int64_t head_size;   // D: elements of a row of query, key and their gradients
  int64_t value_size;  // E: elements of a row of value, output and their gradients
  AttentionOperand query, key, value;
  void* log_sum_exp;  // [B, A, S] or, with packed samples, [A, T]; null if not requested
  AttentionOperand output;  // forward only; null data otherwise
  // Backward only; null otherwise.
  const void* row_sums;  // of the shape of log_sum_exp
  AttentionOperand output_gradient, query_gradient, key_gradient, value_gradient;
  bool accumulate;  // adds to the gradients
  void* highest_scores;  // forward only: [A], raised to the highest score of each head; or null
  double scale, soft_cap;  // soft_cap: 0 without one
  // Dropout: requires samples.
  double dropout_probability;
  PhiloxKey philox_key;
  const int64_t* samples;  // [B], or null
  int64_t head_offset;
};

// Returns the problem of a validated call.
AttentionProblem attention_forward_problem(const OpCall& call);
AttentionProblem attention_backward_problem(const OpCall& call);

// Prepares a call for kernels that compute on the host. Checks that the starts are ascending, within the rows
// and consistent with num_scores, and writes the results of rows that do not belong to any sample. Does
// nothing if samples are not packed.
Status prepare_packed_rows(const OpCall& call, const AttentionProblem& problem);

// Returns the index of the first element in a head's rows.
MTL_HOST_DEVICE static inline int64_t head_at(const AttentionProblem& problem, const AttentionOperand& operand,
                                              int64_t batch, int64_t head) {
  const int64_t members = problem.heads / problem.groups;
  const int64_t sample = operand.starts == nullptr ? batch * operand.sample : operand.starts[batch] * operand.position;
  return sample + head / members * operand.group + head % members * operand.member;
}

// Returns the index of a head's first value in log_sum_exp.
MTL_HOST_DEVICE static inline int64_t statistics_at(const AttentionProblem& problem, int64_t batch, int64_t head) {
  if (problem.query_starts != nullptr) return head * problem.query_rows + problem.query_starts[batch];
  return (batch * problem.heads + head) * problem.num_queries;
}

}  // namespace mtl

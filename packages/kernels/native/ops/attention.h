// The attention ops and their kernels: the names of operands and attributes, and the description of a call
// that all kernels read. The contract is in attention.cc.
#pragma once

#include "core/op_call.h"
#include "core/philox.h"

namespace mtl {

struct AttentionForward {
  enum Tensors {
    kOutput,
    kLogSumExp,
    kQuery,
    kKey,
    kValue,
    kKeyStart,
    kKeyMask,
    kStarts,
    kQueryStarts,
    kFirstQueries,
    kFirstKeys,
    kSamples
  };
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
    kLongestQueries,
    kNumScores
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
    kKeyStart,
    kKeyMask,
    kStarts,
    kQueryStarts,
    kFirstQueries,
    kFirstKeys,
    kSamples
  };
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
    kLongestQueries,
    kNumScores,
    kAccumulate
  };
};

// logSumExp of a query without visible keys. The log of an empty sum is -infinity; with a finite value the
// difference of two is never NaN, and e^(this - any realistic value) is still 0.
constexpr double kEmptyLogSumExp = -1e30;

// The window of a problem without one: more than any position, and half the range of 32 bits.
constexpr int64_t kNoWindow = int64_t{1} << 30;

// The layout of an operand: a row of head_size contiguous elements for every position of every head, found by
// strides in elements. Heads form groups of R = A / G: head a is member a % R of group a / R. All members of
// a group share the rows of a key or value: its `member` stride is 0.
struct AttentionOperand {
  void* data;
  DType dtype;
  int64_t position, sample, group, member;
  const int32_t* starts;  // starts of packed samples in its rows; or null
};

// One call of an attention op, forward or backward: S query positions, B samples, A query heads in G groups,
// each with one key and one value head, D head size, K key positions.
struct AttentionProblem {
  DType dtype;  // of query, key, value and outputGradient; the other tensors have it or are float32
  int64_t num_queries, num_keys;  // S and K; with packed samples at least the length of the longest
  int64_t batch, heads, groups, head_size;
  AttentionOperand query, key, value;
  void* log_sum_exp;  // [B, A, S] or, with packed samples, [A, T]; null if not requested
  AttentionOperand output;  // forward only; null data otherwise
  // Backward only; null otherwise.
  const void* row_sums;  // of the shape of log_sum_exp
  AttentionOperand output_gradient, query_gradient, key_gradient, value_gradient;
  bool accumulate;  // adds to the gradients
  // A query attends to all keys that none of these fields hides. Positions are counted in the whole sequence.
  int64_t first_query, first_key;  // positions of query 0 and key 0
  bool causal;               // hides keys after the query's position
  int64_t window;            // hides keys more than `window` positions before the query's; or kNoWindow
  const int32_t* key_start;  // [B, S]: hides keys before this position; or null
  const uint8_t* key_mask;   // [B, K]: hides keys where it is 0; or null
  // Packed samples: sample b has the keys starts[b] to starts[b + 1] of T rows and the queries
  // query_starts[b] to query_starts[b + 1] of U rows, and operands have no sample dimension.
  const int32_t *starts, *query_starts;  // [B + 1], the same pointer if queries have the rows of keys; or null
  const int32_t *first_queries, *first_keys;  // [B]: first_query and first_key of each sample; or null
  int64_t rows, query_rows;                   // T and U
  int64_t num_scores;                         // the sum over samples of queries times keys
  // Dropout: requires samples.
  double scale, dropout_probability;
  PhiloxKey philox_key;
  const int64_t* samples;  // [B], or null
  int64_t head_offset;
};

// Returns the problem of a validated call.
AttentionProblem attention_forward_problem(const OpCall& call);
AttentionProblem attention_backward_problem(const OpCall& call);

// Prepares a call for kernels that compute on the host: checks that starts are ascending, within the rows and
// consistent with num_scores, and writes the results of rows that belong to no sample. Does nothing without
// packed samples.
Status prepare_packed_rows(const OpCall& call, const AttentionProblem& problem);

// The position of a sample's query 0 in its sequence.
MTL_HOST_DEVICE static inline int64_t first_query_of(const AttentionProblem& problem, int64_t batch) {
  return problem.first_queries == nullptr ? problem.first_query : problem.first_queries[batch];
}

// The position of a sample's key 0 in its sequence.
MTL_HOST_DEVICE static inline int64_t first_key_of(const AttentionProblem& problem, int64_t batch) {
  return problem.first_keys == nullptr ? problem.first_key : problem.first_keys[batch];
}

// The number of positions of a sample: its own length if samples are packed, else `padded`.
MTL_HOST_DEVICE static inline int64_t length_of(const int32_t* starts, int64_t batch, int64_t padded) {
  return starts == nullptr ? padded : starts[batch + 1] - starts[batch];
}

// Tells whether queries of packed samples are in other rows or at other positions than keys.
static inline bool has_queries_apart(const AttentionProblem& problem) {
  return problem.query_starts != problem.starts || problem.first_queries != nullptr || problem.first_keys != nullptr;
}

// The index of the first element of a head's rows.
MTL_HOST_DEVICE static inline int64_t head_at(const AttentionProblem& problem, const AttentionOperand& operand,
                                              int64_t batch, int64_t head) {
  const int64_t members = problem.heads / problem.groups;
  const int64_t sample = operand.starts == nullptr ? batch * operand.sample : operand.starts[batch] * operand.position;
  return sample + head / members * operand.group + head % members * operand.member;
}

// The index of a head's first element in log_sum_exp.
MTL_HOST_DEVICE static inline int64_t statistics_at(const AttentionProblem& problem, int64_t batch, int64_t head) {
  if (problem.query_starts != nullptr) return head * problem.query_rows + problem.query_starts[batch];
  return (batch * problem.heads + head) * problem.num_queries;
}

}  // namespace mtl

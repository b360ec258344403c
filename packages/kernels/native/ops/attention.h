// What the kernels of the attention ops share: argument positions, sizes and attributes; the contract is in
// attention.cc.
#pragma once

#include "core/op_call.h"
#include "core/philox.h"

namespace mtl {

enum { kAttentionOutput, kAttentionLogSumExp, kAttentionQkv };
enum {
  kAttentionQkvGradient,
  kAttentionOutputGradient,
  kAttentionBackwardOutput,
  kAttentionBackwardLogSumExp,
  kAttentionBackwardQkv
};
enum { kPackedStarts = 1, kPackedSamples };  // from qkv on, in the packed ops
enum { kCachedKeyCache, kCachedValueCache, kCachedOutput, kCachedQkv };
enum { kCachedPosition, kCachedScale };

// logSumExp of a query that sees no key. The log of an empty sum is -infinity; a finite stand-in keeps every
// difference of two of them free of NaN, and e^(this - anything sensible) is 0 all the same.
constexpr double kEmptyLogSumExp = -1e30;

struct AttentionProblem {
  int64_t sequence, batch, heads, head_size;
  const int32_t* key_start;  // [B, S], or null
  const uint8_t* key_mask;   // [B, S], or null
  const int64_t* samples;    // [B], or null
  bool causal;
  double scale, dropout_probability;
  PhiloxKey key;
  int64_t head_offset;
  // Packed samples only: `sequence` is then at least the longest sample, `batch` how many there are.
  const int32_t* starts;  // [batch + 1], or null
  int64_t rows;           // T
};

// The problem of a validated attention_forward or attention_backward call, whose qkv is tensor number `qkv`.
AttentionProblem attention_problem(const OpCall& call, int qkv);
// The same of a packed_attention_forward or packed_attention_backward call.
AttentionProblem packed_attention_problem(const OpCall& call, int qkv);

// That the starts of a packed problem are in order and within its rows: for kernels that can read them.
Status check_packed_starts(const OpCall& call, const AttentionProblem& problem);

// Where the rows of one head of one sample lie.
struct HeadRows {
  int64_t first, stride;  // its first row and the distance to the next, in vectors of head_size (of 3 in qkv)
  int64_t length;         // its positions
  int64_t statistics;     // its first element in logSumExp
};

MTL_HOST_DEVICE static inline HeadRows head_rows(const AttentionProblem& problem, int64_t batch, int64_t head) {
  if (problem.starts == nullptr) {
    const int64_t flat = batch * problem.heads + head;
    return {flat, problem.batch * problem.heads, problem.sequence, flat * problem.sequence};
  }
  const int64_t start = problem.starts[batch];
  return {start * problem.heads + head, problem.heads, problem.starts[batch + 1] - start, head * problem.rows + start};
}

}  // namespace mtl

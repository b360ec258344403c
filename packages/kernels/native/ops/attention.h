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
enum { kCachedKeyCache, kCachedValueCache, kCachedOutput, kCachedQkv };
enum { kCachedPosition, kCachedScale };

// logSumExp of a query that sees no key. The log of an empty sum is -infinity; a finite stand-in keeps every difference
// of two of them free of NaN, and e^(this - anything sensible) is 0 all the same.
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
};

// The problem of a validated attention_forward or attention_backward call, whose qkv is tensor number `qkv`.
AttentionProblem attention_problem(const OpCall& call, int qkv);

}  // namespace mtl

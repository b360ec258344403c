// Selects the kernel of an attention problem, for launches and for the declaration of scratch memory.
#pragma once

#include "core/status.h"
#include "ops/attention.h"

namespace mtl::cuda {

constexpr int64_t kMaxAttentionHeadSize = 256;  // of all kernels except the one for generation
constexpr int64_t kMaxHeadsOfSamples = 65535;   // the head of a sample is a grid's second dimension

// Tells whether the kernel for generation computes a problem: the output alone, over one range of keys for
// every query (ranges may be empty). Each of its blocks reads all keys of one query, as generation does
// anyway. With a tile of queries or more, as in evaluation and for a prompt, kernels that read the keys once
// for 8 to 128 queries have enough blocks.
bool is_generation(const AttentionProblem& problem);

// MTL_UNSUPPORTED for a problem without a kernel, with a remedy; `op` is named in the message.
Status check_attention(const char* op, const AttentionProblem& problem);

// Tells whether a call is for some positions of its sequences, or stores `result` in float32 over operands of
// 16 bits.
bool is_part(const AttentionProblem& problem, const AttentionOperand& result);

// Tells whether tensor cores compute a problem with the first key of every query among its keys: with
// windows, and with documents where the keys do not begin at position 0.
bool has_first_keys(const AttentionProblem& problem);

// Tells whether a call takes memory for the first key of every query, with which tensor cores compute windows
// (attention/attention.h).
bool takes_first_keys(const AttentionProblem& problem);

}  // namespace mtl::cuda

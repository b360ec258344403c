// Selects the kernel of an attention problem, for launches and for the declaration of scratch memory.
#pragma once

#include "core/status.h"
#include "ops/attention.h"

namespace mtl::cuda {

constexpr int64_t kMaxAttentionHeadSize = 256;  // for all kernels except the one for generation
constexpr int64_t kMaxHeadsOfSamples = 65535;   // limit of a grid's second dimension, which is the head of a sample

// Returns true if the kernel for generation computes a problem. The problem must need only the output, over
// one range of keys for every query (ranges may be empty). Each block of the kernel reads all keys of one
// query, as generation must do anyway. If there are enough queries for a tile, as in evaluation and for a
// prompt, the other kernels have enough blocks, and are better because they read the keys once for 8 to 128
// queries.
bool is_generation(const AttentionProblem& problem);

// Returns MTL_UNSUPPORTED, with a remedy, for a problem without a kernel; the message names `op`.
Status check_attention(const char* op, const AttentionProblem& problem);

// Returns true if a call computes only some positions of its sequences, or stores `result` in float32
// although the operands have 16 bits.
bool is_part(const AttentionProblem& problem, const AttentionOperand& result);

// Returns true if tensor cores need the index of the first key to which each query attends, among the keys of
// the call. This is the case for windows, and for documents if the keys do not begin at position 0.
bool has_first_keys(const AttentionProblem& problem);

// Returns true if a call allocates memory for the first key of every query, with which tensor cores compute
// windows (attention/attention.h).
bool takes_first_keys(const AttentionProblem& problem);

}  // namespace mtl::cuda

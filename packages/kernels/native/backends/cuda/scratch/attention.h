// Selects the kernel for an attention problem. Both launches and declarations of scratch memory use it.
#pragma once

#include "core/status.h"
#include "ops/attention.h"

namespace mtl::cuda {

constexpr int64_t kMaxAttentionHeadSize = 256;  // for all kernels except the one for generation
constexpr int64_t kMaxHeadsOfSamples = 65535;   // limit of a grid's second dimension, which is the head of a sample

// Returns true if a problem is computed by the kernel for generation. The problem must need only the output,
// and each query must attend to a single range of keys (which may be empty). Each block of the kernel reads
// all keys of one query, as generation must do anyway. If there are enough queries for a tile, as in
// evaluation and for a prompt, the other kernels have enough blocks, and are faster because they read the
// keys once for 8 to 128 queries.
bool is_generation(const AttentionProblem& problem);

// Returns MTL_UNSUPPORTED, with a remedy, if no kernel can compute the problem. The message names `op`.
Status check_attention(const char* op, const AttentionProblem& problem);

// Returns true if a call computes only some of its sequences' positions, or stores `result` in float32
// although the operands have 16 bits.
bool is_part(const AttentionProblem& problem, const AttentionOperand& result);

// Returns true if the tensor core kernels need the index, among the call's keys, of the first key to which
// each query attends. They need it for windows, and for documents if the keys do not begin at position 0.
bool has_first_keys(const AttentionProblem& problem);

// Returns true if a call allocates memory for each query's first key, from which the tensor core kernels
// compute windows (see attention/attention.h).
bool takes_first_keys(const AttentionProblem& problem);

}  // namespace mtl::cuda

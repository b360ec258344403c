// attention_forward and attention_backward on CUDA: the contract of ops/attention.h with pointers to device
// memory.
//
// Hopper's tensor cores (hopper_*.cu) on compute capability 9.0 where the dtype has 16 bits, the head size is
// a multiple of 8 from 40 to 256 and the rows of all operands are aligned to 16 bytes; tensor cores of any
// GPU (attention_*.cu) where the dtype has 16 bits, the head size is a multiple of 8 up to 256 and the rows
// are aligned to 16 bytes; plain arithmetic (plain_*.cu) for everything else: float32 (never TF32),
// odd head sizes up to 256. All give the same bits on every run: no sum depends on which block comes first.
#pragma once

#include "backends/cuda/launch.h"
#include "mtl/dtype.h"
#include "ops/attention.h"

namespace mtl::cuda {

constexpr int64_t kMaxAttentionHeadSize = 256;

struct AttentionForwardCall {
  AttentionProblem problem;  // its pointers into device memory; float32, bfloat16 or float16
  cudaStream_t stream;
};

struct AttentionBackwardCall {
  AttentionProblem problem;
  float* delta;  // [B, A, S] scratch: sums of output times its gradient
  cudaStream_t stream;
};

inline float* log_sum_exp_of(const AttentionProblem& problem) { return static_cast<float*>(problem.log_sum_exp); }

// Whether the kernels can compute the problem: as many queries as keys, and an output [S, B, A, D] or [T, A,
// D] (and its gradient) without gaps. Queries, keys, values and their gradients may be anywhere.
bool has_supported_layout(const AttentionProblem& problem);

// The environment variable that turns the kernels for Hopper off on a Hopper GPU, for comparison: `mma.sync`,
// or unset.
constexpr char kAttentionVariable[] = "MTL_CUDA_ATTENTION";
bool is_attention_variable_known();  // false where it says anything else, and no call succeeds

// cudaErrorNotSupported for dtypes, head sizes and layouts that are not listed above; otherwise what the
// launches say.
cudaError_t attention_forward(const AttentionForwardCall& call);
cudaError_t attention_backward(const AttentionBackwardCall& call);

}  // namespace mtl::cuda

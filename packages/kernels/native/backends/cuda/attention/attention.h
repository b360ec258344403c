// attention_forward and attention_backward on CUDA. ops/attention.h contains the contract, but all pointers
// are to device memory.
//
// - Hopper's tensor cores (hopper_*.cu): compute capability 9.0, 16-bit dtype, head size a multiple of 8 from
//   40 to 256, rows of all operands aligned to 16 bytes.
// - Tensor cores of any GPU (attention_*.cu): 16-bit dtype, head size a multiple of 8 up to 256, rows aligned
//   to 16 bytes.
// - Plain arithmetic (plain_*.cu): all other cases, such as float32 (never TF32), odd head sizes, packed
//   samples with windows, with separate rows of queries or with results in float32, and dropout where keys do
//   not begin at a multiple of 64 positions; head sizes up to 256.
// - One block for each query (generation.cu): the forward pass of few queries without logSumExp, masks and
//   dropout; any head size.
//
// All kernels give the same bits on every run: no sum depends on the order of blocks.
//
// Forward calls on one device must not run at the same time, because Hopper's blocks take their work from a
// counter that all launches share. The library launches these calls in one stream.
#pragma once

#include "backends/cuda/launch.h"
#include "backends/cuda/scratch/attention.h"
#include "mtl/dtype.h"

namespace mtl::cuda {

struct AttentionForwardCall {
  AttentionProblem problem;  // pointers are device pointers; float32, bfloat16 or float16
  cudaStream_t stream;
  int32_t* first_keys = nullptr;  // [B, S] scratch where has_first_keys
};

struct AttentionBackwardCall {
  AttentionProblem problem;
  cudaStream_t stream;
  int32_t* first_keys = nullptr;  // as above
};

inline float* log_sum_exp_of(const AttentionProblem& problem) { return static_cast<float*>(problem.log_sum_exp); }

// Returns true if the kernels support the problem's layout. The output, or its gradient, must be [S, B, A, D]
// or [T, A, D] without gaps. Queries, keys, values and their gradients may have any strides.
bool has_supported_layout(const AttentionProblem& problem);

// The environment variable that selects the kernels on a Hopper GPU, for comparisons: `mma.sync` selects the
// kernels for any GPU. If it is not set, the kernels for Hopper are used.
constexpr char kAttentionVariable[] = "MTL_CUDA_ATTENTION";
bool is_attention_variable_known();  // if it is unknown, every call fails

// Each function returns cudaErrorNotSupported for dtypes, head sizes and layouts that are not listed above;
// otherwise it returns the status of the launches.
cudaError_t attention_forward(const AttentionForwardCall& call);
cudaError_t attention_backward(const AttentionBackwardCall& call);

}  // namespace mtl::cuda

// Which fusions of cuBLASLt are used, and which matmuls take scratch memory.
#pragma once

#include "backends/cuda/cublaslt/cublaslt.h"
#include "core/op_call.h"
#include "core/scratch_blocks.h"

namespace mtl::cuda {

// Whether an environment variable has this value.
bool is_set_to(const char* variable, const char* value);

// Whether a fusion is worth using, where the library has it. On Hopper the library computes the bias gradient
// of 16-bit operands into float32 only in kernels with Ampere's instructions
// (cutlass_80_tensorop_s16816gemm_bgradb; its Hopper kernels, sm90_xmma and nvjet, do not). That is predicted
// to cost the matmul more than a pass over the output gradient.
bool fuses(FusedWith fused, const GpuProperties& gpu);

// Whether linear_weight_gradient asks the library for its matmul and bias gradient in one.
bool fuses_bias_gradient(const OpCall& call, const GpuProperties& gpu);

// Whether matmul converts its bias to the dtype of its output.
bool converts_bias(const OpCall& call);

}  // namespace mtl::cuda

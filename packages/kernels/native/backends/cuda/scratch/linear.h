// Determines which cuBLASLt fusions are used, and which matmuls need scratch memory.
#pragma once

#include "backends/cuda/cublaslt/cublaslt.h"
#include "core/op_call.h"
#include "core/scratch_blocks.h"

namespace mtl::cuda {

// Returns true if the environment variable `variable` has the given value.
bool is_set_to(const char* variable, const char* value);

// Returns true if a fusion should be used when cuBLASLt supports it. On Hopper, cuBLASLt computes the bias
// gradient of 16-bit operands into float32 only in kernels that use Ampere's instructions
// (cutlass_80_tensorop_s16816gemm_bgradb; its Hopper kernels, sm90_xmma and nvjet, do not compute it). This
// is predicted to slow down the matmul by more time than a separate pass over the output gradient takes.
bool fuses(FusedWith fused, const GpuProperties& gpu);

// Returns true if linear_weight_gradient requests the matmul and the bias gradient from cuBLASLt in a single
// call.
bool fuses_bias_gradient(const OpCall& call, const GpuProperties& gpu);

// Returns true if matmul must convert its bias to the output's dtype.
bool converts_bias(const OpCall& call);

}  // namespace mtl::cuda

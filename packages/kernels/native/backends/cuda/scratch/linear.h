// Decides which fusions of cuBLASLt are used, and which matmuls need scratch memory.
#pragma once

#include "backends/cuda/cublaslt/cublaslt.h"
#include "core/op_call.h"
#include "core/scratch_blocks.h"

namespace mtl::cuda {

// Returns true if an environment variable has this value.
bool is_set_to(const char* variable, const char* value);

// Returns true if a fusion should be used when the library supports it. On Hopper the library computes the
// bias gradient of 16-bit operands into float32 only in kernels with Ampere's instructions
// (cutlass_80_tensorop_s16816gemm_bgradb; its Hopper kernels, sm90_xmma and nvjet, do not compute it). This
// is predicted to slow the matmul by more time than a pass over the output gradient takes.
bool fuses(FusedWith fused, const GpuProperties& gpu);

// Returns true if linear_weight_gradient requests the matmul and the bias gradient from the library in a
// single call.
bool fuses_bias_gradient(const OpCall& call, const GpuProperties& gpu);

// Returns true if matmul converts its bias to the dtype of its output.
bool converts_bias(const OpCall& call);

}  // namespace mtl::cuda

#include "backends/cuda/scratch/linear.h"

#include <cstdlib>
#include <cstring>

#include "core/op_registry.h"
#include "ops/linear.h"
#include "ops/matmul.h"

namespace mtl::cuda {
namespace {

// Declares memory for cuBLASLt's bias gradient, which is separate because cuBLASLt overwrites its result,
// whereas our bias gradient accumulates over micro-batches.
Status weight_gradient(const OpCall& call, const GpuProperties& gpu, ScratchBlocks* blocks) {
  using Op = LinearWeightGradient;
  if (!fuses_bias_gradient(call, gpu)) return ok_status();
  blocks->add(call.tensor(Op::kOutputGradient).dim(-1) * static_cast<int64_t>(sizeof(float)));
  return ok_status();
}

Status matmul(const OpCall& call, const GpuProperties&, ScratchBlocks* blocks) {
  if (!converts_bias(call)) return ok_status();
  blocks->add(matmul_sizes(call).columns * static_cast<int64_t>(size_of(call.tensor(Matmul::kOutput).dtype)));
  return ok_status();
}

MTL_REGISTER_CUDA_SCRATCH("linear_weight_gradient", weight_gradient);
MTL_REGISTER_CUDA_SCRATCH("matmul", matmul);

}  // namespace

bool is_set_to(const char* variable, const char* value) {
  const char* const found = std::getenv(variable);
  return found != nullptr && std::strcmp(found, value) == 0;
}

bool fuses(FusedWith fused, const GpuProperties& gpu) {
  static const bool never = is_set_to("MTL_CUBLASLT_EPILOGUES", "0"), always = is_set_to("MTL_CUBLASLT_EPILOGUES", "1");
  return always || (!never && (fused != FusedWith::kBiasGradient || gpu.compute_capability < 90));
}

bool fuses_bias_gradient(const OpCall& call, const GpuProperties& gpu) {
  using Op = LinearWeightGradient;
  const bool is_empty = call.tensor(Op::kOutputGradient).size() == 0 || call.tensor(Op::kInput).size() == 0;
  return !is_empty && fuses(FusedWith::kBiasGradient, gpu);
}

bool converts_bias(const OpCall& call) {
  const TensorView& output = call.tensor(Matmul::kOutput);
  return call.has(Matmul::kBias) && output.size() > 0 && matmul_sizes(call).inner > 0 &&
         call.tensor(Matmul::kBias).dtype != output.dtype;
}

}  // namespace mtl::cuda

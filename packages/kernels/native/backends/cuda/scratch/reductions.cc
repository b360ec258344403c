#include "ops/reductions.h"

#include "backends/cuda/scratch/reductions.h"
#include "core/op_registry.h"

namespace mtl::cuda {
namespace {

Status sum_rows(const OpCall& call, const GpuProperties&, ScratchBlocks* blocks) {
  const TensorView& input = call.tensor(SumRows::kInput);
  blocks->add(num_lines_of(input.rows()) * input.dim(-1) * static_cast<int64_t>(sizeof(float)));
  return ok_status();
}

Status sum_of_squares(const OpCall& call, const GpuProperties&, ScratchBlocks* blocks) {
  const int64_t num_chunks = ceiling(call.tensor(SumOfSquares::kInput).size(), kSquaresChunk);
  blocks->add(num_chunks * static_cast<int64_t>(sizeof(double)));
  return ok_status();
}

MTL_REGISTER_CUDA_SCRATCH("sum_rows", sum_rows);
MTL_REGISTER_CUDA_SCRATCH("sum_of_squares", sum_of_squares);

}  // namespace
}  // namespace mtl::cuda

#include "backends/cuda/scratch/embedding.h"

#include "core/op_registry.h"
#include "ops/embedding.h"

namespace mtl::cuda {
namespace {

// Declares memory for sorting ids, and for partial sums [chunks, 2, columns] of rows that span chunks.
Status backward(const OpCall& call, const GpuProperties&, ScratchBlocks* blocks) {
  using Op = EmbeddingBackward;
  const int64_t num_ids = call.tensor(Op::kOutputGradient).rows(), columns = call.tensor(Op::kTableGradient).dim(-1);
  if (num_ids == 0 || columns == 0) return ok_status();
  blocks->add(SortPlaces(num_ids).end() * static_cast<int64_t>(sizeof(int32_t)));
  blocks->add(2 * ceiling(num_ids, kChunk) * columns * static_cast<int64_t>(sizeof(float)));
  return ok_status();
}

MTL_REGISTER_CUDA_SCRATCH("embedding_backward", backward);

}  // namespace
}  // namespace mtl::cuda

#include "backends/cuda/scratch/router_statistics.h"

#include "core/op_registry.h"
#include "ops/router_statistics.h"

namespace mtl::cuda {
namespace {

// Declares memory for sums [sequences, parts, sums], which are doubles.
Status forward(const OpCall& call, const GpuProperties&, ScratchBlocks* blocks) {
  const StatisticsParts parts = statistics_parts(call);
  blocks->add(parts.sequences * parts.count() * parts.sums() * static_cast<int64_t>(sizeof(double)));
  return ok_status();
}

MTL_REGISTER_CUDA_SCRATCH("router_statistics_forward", forward);

}  // namespace

StatisticsParts statistics_parts(const OpCall& call) {
  using Op = RouterStatisticsForward;
  const TensorView& logits = call.tensor(Op::kLogits);
  return {logits.rows(), logits.dim(-1), call.integer(Op::kNumSequences)};
}

}  // namespace mtl::cuda

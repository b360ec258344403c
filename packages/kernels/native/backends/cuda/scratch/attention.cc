#include "ops/attention.h"

#include "core/op_registry.h"

namespace mtl::cuda {
namespace {

// The sums of output times its gradient of each head and position.
Status backward(const OpCall& call, const GpuProperties&, ScratchBlocks* blocks) {
  if (call.tensor(AttentionBackward::kOutput).size() == 0) return ok_status();
  const AttentionProblem problem = attention_backward_problem(call);
  const int64_t positions = problem.starts == nullptr ? problem.batch * problem.num_queries : problem.rows;
  blocks->add(problem.heads * positions * static_cast<int64_t>(sizeof(float)));
  return ok_status();
}

MTL_REGISTER_CUDA_SCRATCH("attention_backward", backward);

}  // namespace
}  // namespace mtl::cuda

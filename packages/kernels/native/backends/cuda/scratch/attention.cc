#include "backends/cuda/scratch/attention.h"

#include "core/op_registry.h"

namespace mtl::cuda {
namespace {

void add_first_keys(const AttentionProblem& problem, ScratchBlocks* blocks) {
  if (takes_first_keys(problem)) blocks->add(problem.batch * problem.num_queries * static_cast<int64_t>(sizeof(int32_t)));
}

Status forward(const OpCall& call, const GpuProperties&, ScratchBlocks* blocks) {
  if (call.tensor(AttentionForward::kOutput).size() > 0) add_first_keys(attention_forward_problem(call), blocks);
  return ok_status();
}

// The sums of output times its gradient of each head and position.
Status backward(const OpCall& call, const GpuProperties&, ScratchBlocks* blocks) {
  if (call.tensor(AttentionBackward::kOutput).size() == 0) return ok_status();
  const AttentionProblem problem = attention_backward_problem(call);
  const int64_t positions = problem.starts == nullptr ? problem.batch * problem.num_queries : problem.rows;
  blocks->add(problem.heads * positions * static_cast<int64_t>(sizeof(float)));
  add_first_keys(problem, blocks);
  return ok_status();
}

MTL_REGISTER_CUDA_SCRATCH("attention_forward", forward);
MTL_REGISTER_CUDA_SCRATCH("attention_backward", backward);

}  // namespace
}  // namespace mtl::cuda

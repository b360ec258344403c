#include "backends/cpu/simd/attention_cached.h"
#include "backends/cpu/simd/attention_online.h"

namespace mtl {
namespace {

Status forward_of(const AttentionProblem& problem) {
  return for_floating(problem.dtype, [&](auto* type) { return forward_all<__typeof__(*type)>(problem); });
}

Status forward(const OpCall& call) { return forward_of(attention_forward_problem(call)); }

Status scratch_of(const AttentionProblem& problem, ScratchBlocks* blocks) {
  return for_floating(problem.dtype, [&](auto* type) {
    blocks->add(forward_bytes<__typeof__(*type)>(problem));
    return ok_status();
  });
}

Status forward_scratch(const OpCall& call, ScratchBlocks* blocks) {
  return scratch_of(attention_forward_problem(call), blocks);
}

Status packed_scratch(const OpCall& call, ScratchBlocks* blocks) {
  return scratch_of(packed_attention_forward_problem(call), blocks);
}

Status packed_forward(const OpCall& call) {
  const AttentionProblem problem = packed_attention_forward_problem(call);
  MTL_RETURN_IF_ERROR(check_packed_starts(call, problem));
  const int64_t end = problem.starts[problem.batch];
  float* const statistics = static_cast<float*>(problem.log_sum_exp);
  for (int64_t head = 0; head < problem.heads; ++head) {
    for (int64_t row = end; row < problem.rows; ++row) {
      statistics[head * problem.rows + row] = static_cast<float>(kEmptyLogSumExp);
    }
  }
  clear_rows_from(call.tensor(PackedAttentionForward::kOutput), end);
  return forward_of(problem);
}

MTL_REGISTER_CPU("attention_forward", forward, forward_scratch);
MTL_REGISTER_CPU("packed_attention_forward", packed_forward, packed_scratch);
MTL_REGISTER_CPU("attention_cached_forward", cached_forward, cached_scratch);

}  // namespace
}  // namespace mtl

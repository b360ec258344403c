#include "backends/cpu/simd/attention_one_query.h"
#include "backends/cpu/simd/attention_online.h"

namespace mtl {
namespace {

Status forward(const OpCall& call) {
  const AttentionProblem problem = attention_forward_problem(call);
  MTL_RETURN_IF_ERROR(prepare_packed_rows(call, problem));
  if (has_one_query(problem)) {
    return for_floating(problem.dtype, [&](auto* type) { return attend_one_query_all<__typeof__(*type)>(problem); });
  }
  return for_gemm(problem.dtype, [&](auto* gemm, auto* type) {
    return forward_all<__typeof__(*gemm), __typeof__(*type)>(problem);
  });
}

Status forward_scratch(const OpCall& call, ScratchBlocks* blocks) {
  const AttentionProblem problem = attention_forward_problem(call);
  return for_gemm(problem.dtype, [&](auto* gemm, auto*) {
    blocks->add(has_one_query(problem) ? one_query_bytes(problem) : forward_bytes<__typeof__(*gemm)>(problem));
    return ok_status();
  });
}

MTL_REGISTER_CPU("attention_forward", forward, forward_scratch);

}  // namespace
}  // namespace mtl

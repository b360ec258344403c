#include "backends/cpu/simd/attention_backward.h"

namespace mtl {
namespace {

Status backward(const OpCall& call) {
  const AttentionProblem problem = attention_backward_problem(call);
  MTL_RETURN_IF_ERROR(prepare_packed_rows(call, problem));
  return for_gemm(problem.dtype, [&](auto* gemm, auto* type) {
    return backward_all<__typeof__(*gemm), __typeof__(*type)>(problem);
  });
}

Status backward_scratch(const OpCall& call, ScratchBlocks* blocks) {
  const AttentionProblem problem = attention_backward_problem(call);
  return for_gemm(problem.dtype, [&](auto* gemm, auto*) {
    const BackwardPlan plan = backward_plan<__typeof__(*gemm)>(problem);
    if (plan.groups > 0) blocks->add(plan.bytes);
    return ok_status();
  });
}

MTL_REGISTER_CPU("attention_backward", backward, backward_scratch);

}  // namespace
}  // namespace mtl

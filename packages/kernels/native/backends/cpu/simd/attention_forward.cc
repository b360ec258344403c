#include <cstring>

#include "backends/cpu/simd/attention_cached.h"
#include "backends/cpu/simd/attention_online.h"

namespace mtl {
namespace {

template <typename T>
Status forward_of(const OpCall& call, const AttentionProblem& problem) {
  const int64_t size = problem.head_size;
  const T* all = call.data<const T>(kAttentionQkv);
  return forward_all<T>(problem.batch * problem.heads, problem.sequence, problem.sequence, size, [&](int64_t number) {
    const int64_t batch = number / problem.heads, head = number % problem.heads;
    const HeadRows rows = head_rows(problem, batch, head);
    const T* qkv = all + rows.first * 3 * size;
    const int64_t stride = rows.stride * 3 * size;
    return ForwardHead<T>{
        {qkv, stride, rows.length, size},
        {qkv + size, stride, rows.length, size},
        {qkv + 2 * size, stride, rows.length, size},
        {call.data<T>(kAttentionOutput) + rows.first * size, rows.stride * size, rows.length, size},
        call.data<float>(kAttentionLogSumExp) + rows.statistics,
        visibility_of(problem, batch, rows.length),
        dropout_of(problem, batch, head),
        static_cast<float>(problem.scale)};
  });
}

Status forward(const OpCall& call) {
  return for_floating(call.tensor(kAttentionQkv).dtype, [&](auto* type) {
    return forward_of<__typeof__(*type)>(call, attention_problem(call, kAttentionQkv));
  });
}

Status packed_forward(const OpCall& call) {
  const AttentionProblem problem = packed_attention_problem(call, kAttentionQkv);
  MTL_RETURN_IF_ERROR(check_packed_starts(call, problem));
  const int64_t end = problem.starts[problem.batch];
  float* statistics = call.data<float>(kAttentionLogSumExp);
  for (int64_t head = 0; head < problem.heads; ++head) {
    for (int64_t row = end; row < problem.rows; ++row) {
      statistics[head * problem.rows + row] = static_cast<float>(kEmptyLogSumExp);
    }
  }
  return for_floating(call.tensor(kAttentionQkv).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    const int64_t row_size = problem.heads * problem.head_size;
    std::memset(call.data<T>(kAttentionOutput) + end * row_size, 0,
                static_cast<size_t>((problem.rows - end) * row_size) * sizeof(T));
    return forward_of<T>(call, problem);
  });
}

MTL_REGISTER_CPU("attention_forward", forward);
MTL_REGISTER_CPU("packed_attention_forward", packed_forward);
MTL_REGISTER_CPU("attention_cached_forward", cached_forward);

}  // namespace
}  // namespace mtl

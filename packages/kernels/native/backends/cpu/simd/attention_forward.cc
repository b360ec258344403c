#include "backends/cpu/simd/attention_online.h"

namespace mtl {
namespace {

Status forward(const OpCall& call) {
  return for_floating(call.tensor(kAttentionQkv).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    const AttentionProblem problem = attention_problem(call, kAttentionQkv);
    const int64_t sequence = problem.sequence, size = problem.head_size;
    const int64_t num_heads = problem.batch * problem.heads;
    const T* qkv = call.data<const T>(kAttentionQkv);
    return forward_all<T>(num_heads, sequence, sequence, size, [&](int64_t head) {
      const T* data = qkv + head * 3 * size;
      const int64_t stride = num_heads * 3 * size;
      const int64_t batch = head / problem.heads;
      return ForwardHead<T>{{data, stride, sequence, size},
                            {data + size, stride, sequence, size},
                            {data + 2 * size, stride, sequence, size},
                            {call.data<T>(kAttentionOutput) + head * size, num_heads * size, sequence, size},
                            call.data<float>(kAttentionLogSumExp) + head * sequence,
                            visibility_of(problem, batch),
                            dropout_of(problem, batch, head % problem.heads),
                            static_cast<float>(problem.scale)};
    });
  });
}

MTL_REGISTER_CPU("attention_forward", forward);

}  // namespace
}  // namespace mtl

// Attention over a cache of keys and values. A header because it shares the tile code of
// attention_forward.cc, which registers it: in a file of its own, this code would be compiled twice, and it
// takes the compiler longer than any other.
#pragma once

#include "backends/cpu/simd/attention_one_query.h"

namespace mtl {
namespace {

// Copies the keys and values of the new positions into the caches.
template <typename T>
void store_new_positions(const AttentionProblem& problem, const AttentionProjection& from) {
  const int64_t size = problem.head_size, members = problem.heads / problem.groups;
#pragma omp parallel for schedule(static) if (problem.num_queries * problem.batch * problem.groups * size >= kParallelElements)
  for (int64_t number = 0; number < problem.batch * problem.groups; ++number) {
    const int64_t batch = number / problem.groups, head = number % problem.groups * members;
    for (int64_t query = 0; query < problem.num_queries; ++query) {
      const int64_t cached = problem.first_query + query;
      const T* const key = matrix_of<const T>(problem, from.key, batch, head, 0).data + query * from.key.position;
      const T* const value = matrix_of<const T>(problem, from.value, batch, head, 0).data + query * from.value.position;
      T* const to_key = matrix_of<T>(problem, problem.key, batch, head, 0).data + cached * problem.key.position;
      T* const to_value = matrix_of<T>(problem, problem.value, batch, head, 0).data + cached * problem.value.position;
      for (int64_t d = 0; d < size; ++d) to_key[d] = key[d];
      for (int64_t d = 0; d < size; ++d) to_value[d] = value[d];
    }
  }
}

Status cached_forward(const OpCall& call) {
  const AttentionProblem problem = attention_cached_problem(call);
  if (problem.groups == 0) return ok_status();
  return for_floating(problem.dtype, [&](auto* type) {
    using T = __typeof__(*type);
    store_new_positions<T>(problem, projection_of(call.tensor(AttentionCachedForward::kQkv)));
    return problem.num_queries == 1 ? attend_one_query_all<T>(problem) : forward_all<T>(problem);
  });
}

Status cached_scratch(const OpCall& call, ScratchBlocks* blocks) {
  const AttentionProblem problem = attention_cached_problem(call);
  if (problem.groups == 0) return ok_status();
  return for_floating(problem.dtype, [&](auto* type) {
    blocks->add(problem.num_queries == 1 ? one_query_bytes(problem) : forward_bytes<__typeof__(*type)>(problem));
    return ok_status();
  });
}

}  // namespace
}  // namespace mtl

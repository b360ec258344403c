// What the backward kernels are given and, where queries are rows, what a thread knows of its two: for
// attention_query_gradient.cu and its Hopper counterpart.
#pragma once

#include "backends/cuda/attention/masks.cuh"

namespace mtl::cuda {

struct BackwardPointers {
  void* qkv_gradient;
  const void* output_gradient;
  const float* log_sum_exp;
  const float* delta;
  const void* qkv;
};

inline BackwardPointers backward_pointers(const AttentionBackwardCall& call) {
  const AttentionProblem& problem = call.problem;
  return {problem.query_gradient.data, problem.output_gradient.data, log_sum_exp_of(problem), call.delta, problem.query.data};
}

// What the thread's two queries are known by.
struct Statistics {
  KeyRange ranges[2];
  float log_sum_exp[2];  // in powers of 2
  float delta[2];
};

MTL_PTX Statistics statistics_of(const AttentionArguments& a, const HeadPlace& place, const BackwardPointers& from, int query) {
  Statistics result;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = query + 8 * half;
    const bool real = row < a.sequence;
    result.ranges[half] = keys_of_query(a, place.batch, row);
    // infinite beyond the last query: its probabilities are then 0
    result.log_sum_exp[half] = real ? from.log_sum_exp[place.statistics + row] * kLog2E : INFINITY;
    result.delta[half] = real ? from.delta[place.statistics + row] : 0.0f;
  }
  return result;
}

}  // namespace mtl::cuda

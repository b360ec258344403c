// The statistics of two queries that a thread of the backward kernels has when queries are rows: for
// attention_query_gradient.cu and its Hopper counterpart.
#pragma once

#include "backends/cuda/attention/masks.cuh"

namespace mtl::cuda {

// The statistics of the thread's two queries.
struct Statistics {
  KeyRange ranges[2];
  float log_sum_exp[2];  // in base 2
  float delta[2];
};

template <typename Arguments>
MTL_PTX Statistics statistics_of(const Arguments& a, const HeadPlace& place, int query) {
  Statistics result;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = query + 8 * half;
    const bool real = row < a.sequence;
    result.ranges[half] = keys_of_query(a, place.batch, row);
    // infinite beyond the last query, so that probabilities there become 0
    result.log_sum_exp[half] = real ? a.log_sum_exp[place.statistics + row] * kLog2E : INFINITY;
    result.delta[half] = real ? a.delta[place.statistics + row] : 0.0f;
  }
  return result;
}

}  // namespace mtl::cuda

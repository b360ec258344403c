// Stores accumulators of tensor cores as results: rounded to the type of the operands, or in float32, which
// can be added to the old values.
#pragma once

#include "backends/cuda/attention/arguments.h"
#include "backends/cuda/attention/tiles.cuh"

namespace mtl::cuda {

// Stores rows as store_rows does, but in float32 and without shared memory: four lanes write 32 adjacent
// bytes of a row at a time. Each element belongs to one thread, so that adding needs no atomics.
template <int kWidth>
MTL_PTX void store_exact_rows(float* matrix, int64_t stride, int num_rows, int width, const float (&sums)[kWidth / 8][4],
                              const float (&factors)[2], bool accumulate) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane / 4 + 8 * half, column = 8 * n + lane % 4 * 2;
      if (row >= num_rows || column >= width) continue;
      auto& to = in_one_access<float2>(matrix + row * stride + column);
      float2 value = {sums[n][2 * half] * factors[half], sums[n][2 * half + 1] * factors[half]};
      if (accumulate) {
        const float2 before = to;
        value = {before.x + value.x, before.y + value.y};
      }
      to = value;
    }
  }
}

// Stores 16 rows of a head, from `first_row` and `column` on; rows from num_rows on do not exist. If
// `accumulate`, results in float32 are added to the old values. scratch: see store_rows.
template <typename T, int kWidth, typename Arguments>
MTL_PTX void store_results(const Arguments& a, const AttentionOperand& result, const HeadPlace& place, int first_row, int num_rows,
                           int column, const float (&sums)[kWidth / 8][4], const float (&factors)[2], T* scratch, bool accumulate) {
  const int width = a.head_size - column;
  const int64_t at = first_element(result, place) + first_row * result.position + column;
  if (is_exact(a, result)) {
    store_exact_rows<kWidth>(static_cast<float*>(result.data) + at, result.position, num_rows, width, sums, factors, accumulate);
  } else {
    store_rows<T, kWidth>(static_cast<T*>(result.data) + at, result.position, num_rows, width, sums, factors, scratch);
  }
}

}  // namespace mtl::cuda

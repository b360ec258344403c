// Sums over rows with a result per column, threaded: every thread sums a contiguous range of rows into its
// own buffer, and the buffers are added in thread order, so that the result depends on the number of threads
// but not on timing.
#pragma once

#include <omp.h>

#include "backends/cpu/simd/simd.h"
#include "core/caching_allocator.h"

namespace mtl {
namespace {

// Calls add_rows(first row, last row, sums) in each thread, `sums` being a zeroed buffer of `num_sums`
// floats, then result(index, total) for every index, in order.
template <typename AddRows, typename Result>
Status column_sums(int64_t rows, int64_t num_sums, const AddRows& add_rows, const Result& result) {
  const int num_threads = rows * num_sums >= kParallelElements ? omp_get_max_threads() : 1;
  const Scratch scratch(sizeof(float) * static_cast<size_t>(num_sums * num_threads));
  if (scratch.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "no memory for column sums");
  float* const buffers = static_cast<float*>(scratch.data);
  for (int64_t index = 0; index < num_sums * num_threads; ++index) buffers[index] = 0.0f;
#pragma omp parallel for schedule(static, 1) num_threads(num_threads) if (num_threads > 1)
  for (int thread = 0; thread < num_threads; ++thread) {
    add_rows(rows * thread / num_threads, rows * (thread + 1) / num_threads, buffers + thread * num_sums);
  }
  for (int64_t index = 0; index < num_sums; ++index) {
    float total = buffers[index];
    for (int thread = 1; thread < num_threads; ++thread) total += buffers[thread * num_sums + index];
    result(index, total);
  }
  return ok_status();
}

}  // namespace
}  // namespace mtl

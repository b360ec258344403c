// Sums over rows on several threads, with one result per column. Every thread sums contiguous rows into its
// own buffer, and the buffers are added in the order of the threads. The result depends on the number of
// threads but not on timing.
#pragma once

#include "backends/cpu/simd/simd.h"
#include "core/caching_allocator.h"

namespace mtl {
namespace {

inline int column_sums_threads(int64_t rows, int64_t num_sums) {
  return rows * num_sums >= kParallelElements ? num_threads() : 1;
}

// Returns the number of bytes of scratch memory that `column_sums` needs.
inline int64_t column_sums_bytes(int64_t rows, int64_t num_sums) {
  return static_cast<int64_t>(sizeof(float)) * num_sums * column_sums_threads(rows, num_sums);
}

// Calls add_rows(first row, last row, sums) in each thread, where `sums` is a zeroed buffer of `num_sums`
// floats. Then calls result(index, total) for every index, in order.
template <typename AddRows, typename Result>
Status column_sums(int64_t rows, int64_t num_sums, const AddRows& add_rows, const Result& result) {
  const int num_threads = column_sums_threads(rows, num_sums);
  const Scratch scratch(static_cast<uint64_t>(column_sums_bytes(rows, num_sums)));
  if (scratch.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "no memory for column sums");
  float* const buffers = static_cast<float*>(scratch.data);
  for (int64_t index = 0; index < num_sums * num_threads; ++index) buffers[index] = 0.0f;
  on_threads(num_threads, [&](int thread) {
    add_rows(rows * thread / num_threads, rows * (thread + 1) / num_threads, buffers + thread * num_sums);
  });
  for (int64_t index = 0; index < num_sums; ++index) {
    float total = buffers[index];
    for (int thread = 1; thread < num_threads; ++thread) total += buffers[thread * num_sums + index];
    result(index, total);
  }
  return ok_status();
}

}  // namespace
}  // namespace mtl

// Checks of indices that select rows or columns. An index out of range is reported, and its value becomes
// NaN, so that the step changes no parameter.
#pragma once

#include "backends/cuda/launch.h"
#include "backends/cuda/runtime/index_report.h"

namespace mtl::cuda {

struct IndexCheck {
  IndexReport* report;  // null: not reported
  const char *op, *tensor;
  int64_t end;
  int64_t first = 0;

  __device__ __forceinline__ bool is_valid(int64_t value) const { return value >= first && value < end; }
  // Called by one thread for each invalid index. Only the first invalid index is reported.
  __device__ __forceinline__ void refuse(int64_t at, int64_t value) const {
    if (report == nullptr || atomicExch(&report->is_taken, 1) != 0) return;
    report->wrong = {op, tensor, at, value, end, first};
    __threadfence_system();
    report->is_written = 1;
  }
};

}  // namespace mtl::cuda

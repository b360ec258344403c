// What kernels do with indices that choose rows or columns: one out of range is reported, and what it would
// have chosen is NaN, so that the step that it is in changes no parameter.
#pragma once

#include "backends/cuda/launch.h"
#include "backends/cuda/runtime/index_report.h"

namespace mtl::cuda {

struct IndexCheck {
  IndexReport* report;  // null: nowhere
  const char *op, *tensor;
  int64_t end;

  __device__ __forceinline__ bool is_valid(int64_t value) const { return value >= 0 && value < end; }
  // By one thread for each wrong index; only the first of all is kept.
  __device__ __forceinline__ void refuse(int64_t at, int64_t value) const {
    if (report == nullptr || atomicExch(&report->is_taken, 1) != 0) return;
    report->wrong = {op, tensor, at, value, end};
    __threadfence_system();
    report->is_written = 1;
  }
};

}  // namespace mtl::cuda

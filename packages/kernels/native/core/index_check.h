// Checks of indices that select rows or columns (token ids, positions, labels). An index out of range is an
// error. Indices in host memory are checked before the operation; a wrong index in device memory is reported
// when the host next waits for the device (backends/cuda/runtime/index_report.h).
#pragma once

#include "core/op_call.h"

namespace mtl {

// An index outside [first, end), `at` elements after the tensor's first element, with the details of an
// MTL_INDEX error.
struct WrongIndex {
  const char *op, *tensor;
  int64_t at, value, end;
  int64_t first = 0;
};
Status index_error(const WrongIndex& wrong);

// Fails with MTL_INDEX unless all indices of an int32 tensor in host memory are in [first, end).
Status expect_indices(const OpCall& call, int tensor, int64_t end, int64_t first = 0);

// Fails with MTL_INDEX unless an int32 tensor in host memory contains the bounds of groups of rows. The
// bounds must start with 0, must not decrease, and must be at most `rows`.
Status expect_offsets(const OpCall& call, int tensor, int64_t rows);

}  // namespace mtl

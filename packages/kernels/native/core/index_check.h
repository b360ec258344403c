// Checks indices that select rows or columns (token ids, positions, labels). An out-of-range index is an
// error. Indices in host memory are checked before the operation; a wrong index in device memory is reported
// when the host next waits for the device (see backends/cuda/runtime/index_report.h).
#pragma once

#include "core/op_call.h"

namespace mtl {

// An index outside of [first, end), with the details of an MTL_INDEX error. It is `at` elements after the
// tensor's first element.
struct WrongIndex {
  const char *op, *tensor;
  int64_t at, value, end;
  int64_t first = 0;
};
Status index_error(const WrongIndex& wrong);

// Fails with MTL_INDEX unless all indices of an int32 tensor in host memory are in [first, end).
Status expect_indices(const OpCall& call, int tensor, int64_t end, int64_t first = 0);

// Fails with MTL_INDEX unless an int32 tensor in host memory contains the bounds of groups of rows. The
// bounds must start at 0, must not decrease, and must not exceed `rows`.
Status expect_offsets(const OpCall& call, int tensor, int64_t rows);

}  // namespace mtl

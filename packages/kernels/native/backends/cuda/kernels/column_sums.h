// Sums over rows, column by column, in two passes without atomics. Each block sums its rows into a line of
// `partial`, and then the lines are added in order. The result has the same bits every time.
#pragma once

#include "core/op_call.h"

namespace mtl::cuda {

// Where column sums are stored: in one or two arrays of `columns` floats. `second` may be null. A row of
// partial sums contains both arrays, one after another.
struct ColumnSums {
  float *first, *second;
  int64_t columns;
  bool accumulate;
};

// Adds the `num_lines` lines of `partial`. A line contains one float for each sum.
Status add_lines(const OpCall& call, const ColumnSums& sums, const float* partial, int64_t num_lines);

}  // namespace mtl::cuda

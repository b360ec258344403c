// Sorts ids, stably, by the table rows that they select. It is a radix sort whose result does not depend on
// the order of atomics, so later sums always have the same order.
#pragma once

#include "backends/cuda/index_check.cuh"

namespace mtl::cuda {

// The ids, and the table rows that they select. The num_rows ids from first_row on select the rows; all other
// ids select none.
struct RowIds {
  const int32_t* ids;
  int64_t count;
  int64_t first_row, num_rows;
  IndexCheck check;  // for the ids of the whole table
};

// The result of a sort: for each position, a row, and the index of the id that selected this row. Ids that
// select no row come last, with the row num_rows.
struct SortedRows {
  const int32_t* rows;
  const int32_t* numbers;
};

// Sorts ids. `scratch` has the layout SortPlaces (see backends/cuda/scratch/embedding.h), and also stores the
// result.
Status sort_rows(const OpCall& call, const RowIds& ids, void* scratch, SortedRows* sorted);

}  // namespace mtl::cuda

// Sorts ids by the table rows that they select, stably: a radix sort without atomics whose order could affect
// the result, so that later sums always have the same order.
#pragma once

#include "backends/cuda/index_check.cuh"

namespace mtl::cuda {

// The rows of a table: num_rows ids from first_row on. Other ids select none.
struct RowIds {
  const int32_t* ids;
  int64_t count;
  int64_t first_row, num_rows;
  IndexCheck check;  // of the whole table
};

// For each position: the row, and the index of the id that selected it. Ids that select no row are last, with
// row num_rows.
struct SortedRows {
  const int32_t* rows;
  const int32_t* numbers;
};

// `scratch` has the places of a sort (SortPlaces of backends/cuda/scratch/embedding.h), which also contain
// the result.
Status sort_rows(const OpCall& call, const RowIds& ids, void* scratch, SortedRows* sorted);

}  // namespace mtl::cuda

// Ids in the order of the table rows that they choose, those of one row in their own order: a radix sort
// without atomics on anything that order could change, so that whatever follows it adds up in the same order
// every time.
#pragma once

#include "backends/cuda/index_check.cuh"

namespace mtl::cuda {

// Which rows a table has: ids from first_row on, num_rows of them. Other ids choose none.
struct RowIds {
  const int32_t* ids;
  int64_t count;
  int64_t first_row, num_rows;
  IndexCheck check;  // of the whole table
};

// Position by position: the row, and the number of the id that chose it. Ids that choose no row come last, as
// row num_rows.
struct SortedRows {
  const int32_t* rows;
  const int32_t* numbers;
};

// Device memory that a sort needs; the result lies in it.
size_t sort_rows_bytes(const RowIds& ids);
Status sort_rows(const OpCall& call, const RowIds& ids, void* scratch, SortedRows* sorted);

}  // namespace mtl::cuda

// Transposes matrices that files store with rows and columns exchanged. A matrix is transposed once, when it
// is loaded or saved.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace mtl {

// The order of rows and columns. Entry i of `rows` is the source row that becomes column i of the target;
// entry i of `columns` is the source column that becomes row i. If a pointer is null, the order is kept.
struct TransposedOrder {
  const int32_t* rows;
  const int32_t* columns;
};

// Sets target[column, row] = source[rows[row], columns[column]] for all `num_rows` rows and `num_columns`
// columns of the source. Elements have 1, 2, 4 or 8 bytes and are aligned to their size. The matrices must
// not overlap, and all indices in `order` must be in range.
void transpose(void* target, const void* source, int64_t num_rows, int64_t num_columns, int element_bytes,
               TransposedOrder order);

}  // namespace mtl

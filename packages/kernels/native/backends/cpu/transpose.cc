#include "backends/cpu/transpose.h"

#include <algorithm>

#include "backends/cpu/threads.h"

namespace mtl {
namespace {

// The number of rows and columns in a tile. 16 values of 32 bits fill a cache line, so complete lines of both
// matrices are read and written.
constexpr int64_t kTile = 16;

template <typename Element>
void transpose_tile(Element* target, const Element* source, int64_t num_rows, int64_t num_columns,
                    TransposedOrder order, int64_t first_column, int64_t last_column) {
  const Element* rows[kTile];
  for (int64_t first = 0; first < num_rows; first += kTile) {
    const int64_t count = std::min(kTile, num_rows - first);
    for (int64_t row = 0; row < count; ++row) {
      rows[row] = source + (order.rows == nullptr ? first + row : order.rows[first + row]) * num_columns;
    }
    for (int64_t column = first_column; column < last_column; ++column) {
      Element* const line = target + column * num_rows + first;
      const int64_t theirs = order.columns == nullptr ? column : order.columns[column];
      for (int64_t row = 0; row < count; ++row) line[row] = rows[row][theirs];
    }
  }
}

template <typename Element>
void transpose_elements(void* target, const void* source, int64_t num_rows, int64_t num_columns, TransposedOrder order) {
  const int64_t tiles = (num_columns + kTile - 1) / kTile;
  for_each(tiles, num_rows * num_columns, [&](int64_t tile) {
    const int64_t first = tile * kTile;
    transpose_tile(static_cast<Element*>(target), static_cast<const Element*>(source), num_rows, num_columns, order, first,
                   std::min(first + kTile, num_columns));
  });
}

}  // namespace

void transpose(void* target, const void* source, int64_t num_rows, int64_t num_columns, int element_bytes,
               TransposedOrder order) {
  switch (element_bytes) {
    case 1: return transpose_elements<uint8_t>(target, source, num_rows, num_columns, order);
    case 2: return transpose_elements<uint16_t>(target, source, num_rows, num_columns, order);
    case 4: return transpose_elements<uint32_t>(target, source, num_rows, num_columns, order);
    case 8: return transpose_elements<uint64_t>(target, source, num_rows, num_columns, order);
  }
}

}  // namespace mtl

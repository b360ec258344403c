#include "backends/cpu/transpose.h"

#include <algorithm>

#include "backends/cpu/threads.h"

namespace mtl {
namespace {

// A cache line of 32-bit values: of both matrices whole lines are read and written.
constexpr int64_t kLine = 16;

void transpose_tile(uint32_t* target, const uint32_t* source, int64_t num_rows, int64_t num_columns,
                    TransposedOrder order, int64_t first_column, int64_t last_column) {
  const uint32_t* rows[kLine];
  for (int64_t first = 0; first < num_rows; first += kLine) {
    const int64_t count = std::min(kLine, num_rows - first);
    for (int64_t row = 0; row < count; ++row) {
      rows[row] = source + (order.rows == nullptr ? first + row : order.rows[first + row]) * num_columns;
    }
    for (int64_t column = first_column; column < last_column; ++column) {
      uint32_t* const line = target + column * num_rows + first;
      const int64_t theirs = order.columns == nullptr ? column : order.columns[column];
      for (int64_t row = 0; row < count; ++row) line[row] = rows[row][theirs];
    }
  }
}

}  // namespace

void transpose(uint32_t* target, const uint32_t* source, int64_t num_rows, int64_t num_columns, TransposedOrder order) {
  const int64_t tiles = (num_columns + kLine - 1) / kLine;
  for_each(tiles, num_rows * num_columns, [&](int64_t tile) {
    const int64_t first = tile * kLine;
    transpose_tile(target, source, num_rows, num_columns, order, first, std::min(first + kLine, num_columns));
  });
}

}  // namespace mtl

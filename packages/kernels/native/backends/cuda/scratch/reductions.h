// How sum_rows and sum_of_squares divide their work, which determines their scratch memory.
#pragma once

#include "backends/cuda/scratch/sizes.h"

namespace mtl::cuda {

constexpr int kRowsAtOnce = 8;      // rows that a block of sum_rows reads at a time
constexpr int64_t kMaxLines = 256;  // lines of partial sums per column

// Returns how many rows each line of partial sums covers. It keeps the number of lines small, and depends
// only on the shape.
inline int64_t rows_per_line_of(int64_t rows) { return std::max<int64_t>(4 * kRowsAtOnce, ceiling(rows, kMaxLines)); }
inline int64_t num_lines_of(int64_t rows) { return ceiling(rows, rows_per_line_of(rows)); }

constexpr int kSquareAccesses = 8;  // accesses of 4 floats by each thread
constexpr int64_t kSquaresChunk = int64_t{kThreads} * 4 * kSquareAccesses;

}  // namespace mtl::cuda

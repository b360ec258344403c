// Sizes of grids and scratch memory that both the kernels and the declarations of their scratch memory use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "backends/cuda/alignment.h"
#include "core/tensor_view.h"

namespace mtl::cuda {

inline int64_t ceiling(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

constexpr int kThreads = 256;

// Returns how many threads process a row of `items` elements: a multiple of 32, and at most `maximum`.
inline int row_threads(int64_t items, int maximum = kThreads) {
  return static_cast<int>(std::min<int64_t>(maximum, ceiling(std::max<int64_t>(items, 1), 32) * 32));
}

// Returns true if rows of `columns` elements can be read 16 bytes at a time in all given tensors (null for an
// absent tensor). `pack` is the number of elements in 16 bytes.
inline bool are_rows_packed(int64_t columns, int64_t pack, std::initializer_list<const void*> tensors) {
  return columns % pack == 0 && std::all_of(tensors.begin(), tensors.end(), is_aligned);
}

}  // namespace mtl::cuda

// Finds in memory the rows (last dimensions) of a contiguous tensor or a strided view.
#pragma once

#include "core/host_device.h"
#include "core/tensor_view.h"

namespace mtl {

// The layout of a tensor's rows: all dimensions before the last, innermost first. Adjacent dimensions that a
// single stride can describe are merged, so that a contiguous tensor has a single dimension.
struct RowLayout {
  int32_t rank;  // 1 or more
  int64_t shape[kMaxRank], strides[kMaxRank];
};

// Returns the layout of a tensor's rows. `expect_whole_rows` must accept the tensor.
RowLayout row_layout_of(const TensorView& tensor);

// Returns the index of a row's first element. Rows have the same indices as in a contiguous tensor. Row
// indices are divided as 32-bit integers, because 64-bit divisions are slow on GPUs.
MTL_HOST_DEVICE static inline int64_t row_start(const RowLayout& layout, int64_t row) {
  int64_t start = 0;
  for (int dim = 0; dim + 1 < layout.rank; ++dim) {
    const int64_t outer = static_cast<uint32_t>(row) / static_cast<uint32_t>(layout.shape[dim]);
    start += (row - outer * layout.shape[dim]) * layout.strides[dim];
    row = outer;
  }
  return start + row * layout.strides[layout.rank - 1];
}

}  // namespace mtl

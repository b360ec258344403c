// Access to the rows of contiguous tensors and strided views. A thread steps from row to row of its range
// without divisions.
#pragma once

#include "backends/cpu/simd/simd.h"
#include "core/row_layout.h"

namespace mtl {
namespace {

// Walks through a tensor's rows. If the tensor is null, all its rows are null.
template <typename T>
class RowWalk {
 public:
  RowWalk(T* tensor, const RowLayout& layout, int64_t row) : layout_(layout), row_(tensor) {
    for (int dim = 0; dim < layout.rank; ++dim) {
      const bool is_outermost = dim + 1 == layout.rank;
      // a tensor without rows may have an empty dimension, by whose size the code must not divide
      index_[dim] = is_outermost || row == 0 ? row : row % layout.shape[dim];
      row = is_outermost || row == 0 ? 0 : row / layout.shape[dim];
      if (tensor != nullptr) row_ += index_[dim] * layout.strides[dim];
    }
  }

  T* row() const { return row_; }

  void next() {
    if (row_ == nullptr) return;
    row_ += layout_.strides[0];
    ++index_[0];
    for (int dim = 0; __builtin_expect(index_[dim] == layout_.shape[dim] && dim + 1 < layout_.rank, 0); ++dim) {
      row_ += layout_.strides[dim + 1] - index_[dim] * layout_.strides[dim];
      index_[dim] = 0;
      ++index_[dim + 1];
    }
  }

 private:
  const RowLayout& layout_;
  T* row_;
  int64_t index_[kMaxRank];
};

}  // namespace
}  // namespace mtl

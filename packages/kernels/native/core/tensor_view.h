// What a kernel sees of a tensor: contiguous memory on its device, a dtype and a shape. Owns nothing; plain
// data.
#pragma once

#include "mtl/dtype.h"

namespace mtl {

constexpr int kMaxRank = 6;

struct TensorView {
  void* data = nullptr;  // null: an optional argument that was left out
  DType dtype = DType::kFloat32;
  int32_t rank = 0;
  int64_t shape[kMaxRank] = {};

  bool present() const { return data != nullptr; }
  int64_t size() const {
    int64_t count = 1;
    for (int dim = 0; dim < rank; ++dim) count *= shape[dim];
    return count;
  }
  // Size of dimension `dim`, counted from the end when negative.
  int64_t dim(int dim) const { return shape[dim < 0 ? rank + dim : dim]; }
  // Product of all dimensions but the last: how many rows of `dim(-1)` elements there are.
  int64_t rows() const { return rank == 0 ? 1 : (dim(-1) == 0 ? 0 : size() / dim(-1)); }
};

}  // namespace mtl

// A tensor as kernels see it: memory on its device, a dtype and a shape. The memory is contiguous, except for
// operands for which the op's schema accepts strided views. A view is plain data and owns nothing.
#pragma once

#include "mtl/dtype.h"

namespace mtl {

constexpr int kMaxRank = 6;

struct TensorView {
  void* data = nullptr;  // null: an absent optional argument
  DType dtype = DType::kFloat32;
  int32_t rank = 0;
  int64_t shape[kMaxRank] = {};
  bool is_strided = false;
  int64_t strides[kMaxRank] = {};  // of a strided view: elements from one index of a dimension to the next

  bool present() const { return data != nullptr; }
  int64_t size() const {
    int64_t count = 1;
    for (int dim = 0; dim < rank; ++dim) count *= shape[dim];
    return count;
  }
  // Returns the size of dimension `dim`. A negative `dim` counts from the end.
  int64_t dim(int dim) const { return shape[dim < 0 ? rank + dim : dim]; }
  // Returns the distance in elements between neighbouring indices of dimension `dim`.
  int64_t stride(int dim) const {
    if (dim < 0) dim += rank;
    if (is_strided) return strides[dim];
    int64_t elements = 1;
    for (int inner = dim + 1; inner < rank; ++inner) elements *= shape[inner];
    return elements;
  }
  // Returns the product of all dimensions except the last, which is the number of rows of `dim(-1)` elements.
  int64_t rows() const { return rank == 0 ? 1 : (dim(-1) == 0 ? 0 : size() / dim(-1)); }
};

}  // namespace mtl

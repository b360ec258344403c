// Finds elements of views that share memory: elements that are written must not share it.
#pragma once

#include "core/tensor_view.h"

namespace mtl {

// Tells whether two elements of a strided view may be the same memory. Also true for views whose dimensions
// interleave: each stride must be larger than the extent of all dimensions with smaller strides.
bool overlaps_itself(const TensorView& view);

// Tells whether an element of one view shares bytes with an element of the other. Also true for strides so
// unusual that finding out would take long.
bool overlap(const TensorView& left, const TensorView& right);

}  // namespace mtl

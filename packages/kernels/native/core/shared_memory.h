// Detects elements of views that share memory, because the elements that an op writes must not share memory
// with any other.
#pragma once

#include "core/tensor_view.h"

namespace mtl {

// Tells whether two elements of a strided view may be in the same memory. The answer is also true for views
// whose dimensions interleave: it is false only if each stride is larger than the extent of all dimensions
// with smaller strides.
bool overlaps_itself(const TensorView& view);

// Tells whether an element of one view shares bytes with an element of the other. The answer is also true for
// strides so unusual that an exact answer would take long.
bool overlap(const TensorView& left, const TensorView& right);

}  // namespace mtl

// Detects elements of views that share memory. The elements that an op writes must not share memory with any
// other element.
#pragma once

#include "core/tensor_view.h"

namespace mtl {

// Returns true if two elements of a strided view may share memory. The answer is also true for views with
// interleaved dimensions. It is false only if each stride is larger than the extent of all dimensions with
// smaller strides.
bool overlaps_itself(const TensorView& view);

// Returns true if an element of one view may share bytes with an element of the other. The answer is also
// true for unusual strides that would take long to check exactly.
bool overlap(const TensorView& left, const TensorView& right);

}  // namespace mtl

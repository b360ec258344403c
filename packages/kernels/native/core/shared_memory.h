// Detects elements of views that share memory. An element that an op writes must not share memory with any
// other element.
#pragma once

#include "core/tensor_view.h"

namespace mtl {

// Returns true if two elements of a strided view may share memory. Returns false only if each stride is
// larger than the extent of all dimensions with smaller strides. The result is therefore also true for some
// views whose dimensions are interleaved but which do not share memory.
bool overlaps_itself(const TensorView& view);

// Returns true if an element of `left` may share bytes with an element of `right`. Also returns true for
// unusual strides for which an exact check would take too long.
bool overlap(const TensorView& left, const TensorView& right);

}  // namespace mtl

// Detects elements of views that share memory. The elements that an op writes must not share memory with any
// other element.
#pragma once

#include "core/tensor_view.h"

namespace mtl {

// Returns true if two elements of a strided view may share memory. Returns false only if each stride is
// larger than the extent of all dimensions with smaller strides. The result is therefore also true for some
// views with interleaved dimensions that share no memory.
bool overlaps_itself(const TensorView& view);

// Returns true if an element of one view may share bytes with an element of the other. Also returns true for
// unusual strides for which an exact check would take long.
bool overlap(const TensorView& left, const TensorView& right);

}  // namespace mtl

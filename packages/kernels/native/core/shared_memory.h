// Which elements of views share memory: what is written must have memory of its own.
#pragma once

#include "core/tensor_view.h"

namespace mtl {

// Whether two elements of a strided view may be the same memory. Views whose dimensions interleave are
// refused with them: each stride has to be larger than the extent of all dimensions with smaller ones.
bool overlaps_itself(const TensorView& view);

// Whether an element of one view shares bytes with one of the other. True, too, where strides are so unusual
// that finding out would take long.
bool overlap(const TensorView& left, const TensorView& right);

}  // namespace mtl

#include "core/row_layout.h"

namespace mtl {

RowLayout row_layout_of(const TensorView& tensor) {
  RowLayout layout = {};
  for (int dim = tensor.rank - 2; dim >= 0; --dim) {
    const int64_t size = tensor.dim(dim), stride = tensor.stride(dim);
    const int last = layout.rank - 1;
    if (size == 1) continue;
    if (last >= 0 && stride == layout.shape[last] * layout.strides[last]) {
      layout.shape[last] *= size;
    } else {
      layout.shape[layout.rank] = size;
      layout.strides[layout.rank] = stride;
      ++layout.rank;
    }
  }
  if (layout.rank == 0) {
    layout.shape[0] = 1;
    layout.rank = 1;
  }
  return layout;
}

}  // namespace mtl

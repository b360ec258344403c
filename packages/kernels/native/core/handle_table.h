// Tensors for JavaScript. A handle is an index with a generation, so that using a handle after dispose() is
// an error instead of an access to a different tensor's memory. Views share storage, which is freed when the
// last view is released. JavaScript threads use this table only through bindings/. Worker threads share the
// process, so one lock guards the table.
#pragma once

#include <cstdint>

#include "core/backend.h"

namespace mtl {

using TensorHandle = uint64_t;  // 0 is never a tensor; fits a JavaScript number (below 2^53)

struct TensorRecord {
  TensorView view;
  DeviceKind device = DeviceKind::kCpu;
};

Status create_tensor(DeviceKind device, DType dtype, const int64_t* shape, int rank, TensorHandle* handle);
// Creates a view of the `size(shape)` elements from element `offset` on. It shares the storage of `base`.
Status create_view(TensorHandle base, int64_t offset, const int64_t* shape, int rank, TensorHandle* handle);
// Creates a view from element `offset` on. Along dimension `dim`, neighbouring elements are `strides[dim]`
// elements apart. Fails with MTL_SHAPE if the view exceeds the base.
Status create_strided_view(TensorHandle base, int64_t offset, const int64_t* shape, const int64_t* strides, int rank,
                           TensorHandle* handle);
Status release_tensor(TensorHandle handle);
// Looks up a contiguous tensor. Fails with MTL_SHAPE for a strided view.
Status resolve_tensor(TensorHandle handle, TensorRecord* record);
// Looks up a tensor, which may be a strided view. Only for code that uses strides.
Status resolve_view(TensorHandle handle, TensorRecord* record);
uint64_t num_live_tensors();

// Fills new floating-point tensors with NaN and all other new tensors with 0xff, to detect kernels that read
// uninitialized outputs.
void set_poison(bool enabled);

}  // namespace mtl

// Converts an op call to a kernel launch: maps the dtype to a type, computes the grid's shape, and returns
// the status of the launch.
#pragma once

#include <initializer_list>

#include "backends/cuda/kernels/values.h"
#include "backends/cuda/runtime/device.h"
#include "backends/cuda/runtime/kernel_scratch.h"
#include "backends/cuda/runtime/op_table.h"
#include "backends/cuda/scratch/sizes.h"
#include "core/row_layout.h"

namespace mtl::cuda {

// Calls body(pointer to T), where T is the C++ type of the given floating dtype.
template <typename Body>
Status for_floating(const OpCall& call, DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(static_cast<float*>(nullptr));
    case DType::kBFloat16:
      return body(static_cast<bf16*>(nullptr));
    case DType::kFloat16:
      return body(static_cast<fp16*>(nullptr));
    default:
      return error_status("MTL_DTYPE", "%s: %s is computed on the reference device only", call.op,
                          dtype == DType::kFloat64 ? "float64" : "this dtype");
  }
}

// How many elements `body` handles at a time, as a std::integral_constant: if `packed`, the elements of a
// 16-byte access, otherwise 1.
template <int kWidth>
struct Width {
  static constexpr int value = kWidth;
};
template <typename T, typename Body>
Status for_width(bool packed, const Body& body) {
  return packed ? body(Width<kPack<T>>()) : body(Width<1>());
}

// Returns true if rows of `columns` elements of T can be read 16 bytes at a time in all given tensors (null
// for an absent tensor).
template <typename T>
bool is_packed(int64_t columns, std::initializer_list<const void*> tensors) {
  return are_rows_packed(columns, kPack<T>, tensors);
}

// Returns true if all rows of `columns` elements of T begin and end at multiples of 16 bytes, counted from
// the beginning of the first row.
template <typename T>
bool is_packed_row(int64_t columns, const RowLayout& layout) {
  bool whole = columns % kPack<T> == 0;
  for (int dim = 0; dim < layout.rank; ++dim) whole = whole && layout.strides[dim] % kPack<T> == 0;
  return whole;
}

inline Launch grid_of(int64_t blocks, int threads, int64_t blocks_y = 1) {
  Launch launch;
  launch.grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(blocks_y), 1);
  launch.block = dim3(static_cast<unsigned>(threads), 1, 1);
  launch.stream = compute_stream();
  return launch;
}

}  // namespace mtl::cuda

// Launches a kernel. If the launch fails, makes the enclosing op return the launch's status. An empty grid
// launches nothing.
#define MTL_RUN_KERNEL(call, kernel, how, ...)                                                      \
  do {                                                                                              \
    const ::mtl::cuda::Launch mtl_launch_ = (how);                                                  \
    MTL_RETURN_IF_ERROR(::mtl::cuda::use_device());                                                 \
    if (mtl_launch_.grid.x != 0 && mtl_launch_.grid.y != 0) {                                       \
      MTL_RETURN_IF_ERROR(                                                                          \
          ::mtl::cuda::cuda_status(MTL_LAUNCH(kernel, mtl_launch_, __VA_ARGS__), (call).op));       \
    }                                                                                               \
  } while (0)

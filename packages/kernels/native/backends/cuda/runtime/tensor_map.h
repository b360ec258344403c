// Descriptions of tensors for Hopper's copy engine (CUtensorMap). A driver function creates them. It is
// looked up at run time, so that libcuda is not linked.
#pragma once

#include "backends/cuda/instructions/hopper.h"

namespace mtl::cuda {

// A tensor [positions, vectors, columns] of 16-bit elements with contiguous columns, and the boxes [box_rows,
// 1, box_columns] that are copied. A box has at most 256 rows, and its columns must fit into the bytes of
// `swizzle`.
struct TensorMapShape {
  const void* data;  // aligned to 16 bytes
  bool is_half;      // true: float16; false: bfloat16
  int64_t positions, vectors, columns;  // columns: a multiple of 8
  int64_t position_distance, vector_distance;  // strides in elements: multiples of 8
  int box_rows, box_columns;
  Swizzle swizzle;
};

// Converts the driver's CUresult to a runtime error. Returns cudaErrorUnknown for a result that is unexpected
// when a tensor map is created.
cudaError_t status_of_driver(int result);

// Creates a tensor map. Returns cudaErrorInsufficientDriver if the driver lacks the function,
// cudaErrorInvalidValue if it rejects the shape, and cudaErrorInitializationError or
// cudaErrorDeviceUninitialized if no device is open.
cudaError_t make_tensor_map(TensorMap* map, const TensorMapShape& shape);

}  // namespace mtl::cuda

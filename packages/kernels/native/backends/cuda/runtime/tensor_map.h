// Descriptions of tensors for Hopper's copy engine (CUtensorMap). The driver makes them; its function is
// looked up at run time, so that nothing is linked to libcuda.
#pragma once

#include "backends/cuda/instructions/hopper.h"

namespace mtl::cuda {

// A tensor [positions, vectors, columns] of 16-bit elements with contiguous columns, and boxes of it of
// [box_rows, 1, box_columns], at most 256 rows and as many columns as `swizzle` has bytes for.
struct TensorMapShape {
  const void* data;  // aligned to 16 bytes
  bool is_half;      // float16, else bfloat16
  int64_t positions, vectors, columns;  // columns: a multiple of 8
  int64_t position_distance, vector_distance;  // elements from one to the next: multiples of 8
  int box_rows, box_columns;
  Swizzle swizzle;
};

// What a CUresult of the driver's is called by the runtime, cudaErrorUnknown where it is none that making
// tensor maps is known for.
cudaError_t status_of_driver(int result);

// cudaErrorInsufficientDriver where the driver has no such function, cudaErrorInvalidValue where it refuses
// the shape, cudaErrorInitializationError or cudaErrorDeviceUninitialized where no device is open.
cudaError_t make_tensor_map(TensorMap* map, const TensorMapShape& shape);

}  // namespace mtl::cuda

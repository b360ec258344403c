// Emulates the driver's cuTensorMapEncodeTiled for three dimensions of 16-bit elements. Rejects the shapes
// that a GPU's driver would reject. Writes TensorMapFacts (see async_work.h).
#pragma once

#include <cstdint>

namespace mtl::emulation {

// Returns 0, or CUDA_ERROR_INVALID_VALUE (1). In sizes and boxes, the innermost dimension is first. Strides
// are in bytes and leave out the innermost dimension.
int encode_tiled(void* map, int type, uint32_t rank, void* data, const uint64_t* dims, const uint64_t* strides,
                 const uint32_t* box, const uint32_t* element_strides, int interleave, int swizzle, int promotion,
                 int outside);

}  // namespace mtl::emulation

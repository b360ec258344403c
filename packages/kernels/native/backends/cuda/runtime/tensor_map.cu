#include "backends/cuda/runtime/tensor_map.h"

#if defined(__CUDACC__)
#include <cuda.h>  // types and constants only: none of its functions is called
#endif

namespace mtl::cuda {
namespace {

// Constants and the signature of cuTensorMapEncodeTiled, from the driver API, version 12.0.
constexpr int kFloat16 = 6, kBFloat16 = 9;
constexpr int kNoInterleave = 0, kSwizzle32 = 1, kSwizzle64 = 2, kSwizzle128 = 3;
constexpr int kPromote256 = 3;  // L2 fetches 256 bytes
constexpr int kZerosOutside = 0;
constexpr int kSuccess = 0, kInvalidValue = 1, kNotInitialized = 3, kInvalidContext = 201;  // values of CUresult
using EncodeTiled = int (*)(void* map, int type, uint32_t rank, void* data, const uint64_t* dims, const uint64_t* strides,
                            const uint32_t* box, const uint32_t* element_strides, int interleave, int swizzle,
                            int promotion, int outside);
constexpr unsigned kDriverVersion = 12000;

#if defined(__CUDACC__)
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));
static_assert(kFloat16 == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && kBFloat16 == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
static_assert(kNoInterleave == CU_TENSOR_MAP_INTERLEAVE_NONE && kZerosOutside == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
static_assert(kSwizzle32 == CU_TENSOR_MAP_SWIZZLE_32B && kSwizzle64 == CU_TENSOR_MAP_SWIZZLE_64B &&
              kSwizzle128 == CU_TENSOR_MAP_SWIZZLE_128B);
static_assert(kSuccess == CUDA_SUCCESS && kInvalidValue == CUDA_ERROR_INVALID_VALUE &&
              kNotInitialized == CUDA_ERROR_NOT_INITIALIZED && kInvalidContext == CUDA_ERROR_INVALID_CONTEXT);
static_assert(kPromote256 == CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
#endif

EncodeTiled find_encode() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if defined(CUDART_VERSION) && CUDART_VERSION < 12050
  const cudaError_t status = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result);
#else
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, kDriverVersion, cudaEnableDefault, &result);
#endif
  if (status != cudaSuccess || result != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<EncodeTiled>(found);
}

int number_of(Swizzle swizzle) {
  return swizzle == Swizzle::k128 ? kSwizzle128 : swizzle == Swizzle::k64 ? kSwizzle64 : kSwizzle32;
}

}  // namespace

cudaError_t status_of_driver(int result) {
  switch (result) {
    case kSuccess:
      return cudaSuccess;
    case kInvalidValue:
      return cudaErrorInvalidValue;
    case kNotInitialized:
      return cudaErrorInitializationError;
    case kInvalidContext:
      return cudaErrorDeviceUninitialized;
    default:
      return cudaErrorUnknown;
  }
}

cudaError_t make_tensor_map(TensorMap* map, const TensorMapShape& shape) {
  static const EncodeTiled encode = find_encode();
  if (encode == nullptr) return cudaErrorInsufficientDriver;
  const uint64_t dims[] = {static_cast<uint64_t>(shape.columns), static_cast<uint64_t>(shape.vectors),
                           static_cast<uint64_t>(shape.positions)};
  // in bytes, for all dimensions except the innermost
  const uint64_t strides[] = {2 * static_cast<uint64_t>(shape.vector_distance), 2 * static_cast<uint64_t>(shape.position_distance)};
  const uint32_t box[] = {static_cast<uint32_t>(shape.box_columns), 1, static_cast<uint32_t>(shape.box_rows)};
  const uint32_t element_strides[] = {1, 1, 1};
  const int result = encode(map, shape.is_half ? kFloat16 : kBFloat16, 3, const_cast<void*>(shape.data), dims, strides, box,
                            element_strides, kNoInterleave, number_of(shape.swizzle), kPromote256, kZerosOutside);
  return status_of_driver(result);
}

}  // namespace mtl::cuda

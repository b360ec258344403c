// Element types as @mtl/kernels numbers them (its native/core/dtype.h): part of the ABI between the two
// addons.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtl::comm {

enum class DType : int32_t {
  kFloat32 = 0,
  kBFloat16 = 1,
  kFloat16 = 2,
  kFloat64 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint8 = 6,
};
constexpr int kNumDTypes = 7;
constexpr const char* kDTypeNames[kNumDTypes] = {"float32", "bfloat16", "float16", "float64", "int32", "int64", "uint8"};
constexpr size_t kDTypeBytes[kNumDTypes] = {4, 2, 2, 8, 4, 8, 1};

inline size_t size_of(DType dtype) { return kDTypeBytes[static_cast<int>(dtype)]; }
inline const char* name_of(DType dtype) { return kDTypeNames[static_cast<int>(dtype)]; }

}  // namespace mtl::comm

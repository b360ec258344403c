// Element types of tensors, for every native addon: @mtl/comm also includes this file. The values are part of
// the ABI with TypeScript (src/dtype.ts), and are also the values of MtlTensorMemory's `dtype`.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace mtl {

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

// Returns the number of bytes in an element, or 0 for an unknown dtype.
constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kUint8:
      return 1;
  }
  return 0;
}

// Returns the dtype's name, which is the same as in TypeScript, or "unknown" for an unknown dtype.
constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    case DType::kFloat64:
      return "float64";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kUint8:
      return "uint8";
  }
  return "unknown";
}

// The bits of a bfloat16.
struct bfloat16 {
  uint16_t bits;
};

}  // namespace mtl

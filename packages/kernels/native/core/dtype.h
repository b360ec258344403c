// Element types. The numbers are part of the ABI with TypeScript (src/dtype.ts) and with other addons.
#pragma once

#include <cstddef>
#include <cstdint>

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

struct bfloat16 {
  uint16_t bits;
};

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

const char* name_of(DType dtype);

}  // namespace mtl

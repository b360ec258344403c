// Element access for the reference kernels: reads or writes one element of any dtype at a time, as a double.
// It is deliberately not optimised.
#pragma once

#include <cstring>

#include "core/half.h"
#include "core/op_registry.h"

namespace mtl::reference {

inline double get(const TensorView& tensor, int64_t index) {
  switch (tensor.dtype) {
    case DType::kFloat32:
      return static_cast<const float*>(tensor.data)[index];
    case DType::kFloat64:
      return static_cast<const double*>(tensor.data)[index];
    case DType::kBFloat16: {
      const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(tensor.data)[index]) << 16;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    case DType::kFloat16:
      return static_cast<double>(static_cast<const Half*>(tensor.data)[index]);
    case DType::kInt32:
      return static_cast<const int32_t*>(tensor.data)[index];
    case DType::kInt64:
      return static_cast<double>(static_cast<const int64_t*>(tensor.data)[index]);
    case DType::kUint8:
      return static_cast<const uint8_t*>(tensor.data)[index];
  }
  return 0.0;
}

inline int64_t get_integer(const TensorView& tensor, int64_t index) {
  return tensor.dtype == DType::kInt64 ? static_cast<const int64_t*>(tensor.data)[index]
                                       : static_cast<int64_t>(get(tensor, index));
}

inline uint16_t bfloat16_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);  // keep NaN a NaN
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);                 // nearest, ties to even
}

inline void set(const TensorView& tensor, int64_t index, double value) {
  switch (tensor.dtype) {
    case DType::kFloat32:
      static_cast<float*>(tensor.data)[index] = static_cast<float>(value);
      return;
    case DType::kFloat64:
      static_cast<double*>(tensor.data)[index] = value;
      return;
    case DType::kBFloat16:
      static_cast<uint16_t*>(tensor.data)[index] = bfloat16_bits(static_cast<float>(value));
      return;
    case DType::kFloat16:
      static_cast<Half*>(tensor.data)[index] = static_cast<Half>(value);
      return;
    case DType::kInt32:
      static_cast<int32_t*>(tensor.data)[index] = static_cast<int32_t>(value);
      return;
    case DType::kInt64:
      static_cast<int64_t*>(tensor.data)[index] = static_cast<int64_t>(value);
      return;
    case DType::kUint8:
      static_cast<uint8_t*>(tensor.data)[index] = static_cast<uint8_t>(value);
      return;
  }
}

}  // namespace mtl::reference

// A call of an operation with made-up tensors, which op_test.cc runs on every device.
#pragma once

#include <vector>

#include "core/op_call.h"

namespace mtl::tests {

constexpr DType kCompute = static_cast<DType>(-1);  // the dtype of the case
constexpr DType kF32 = DType::kFloat32;

enum class Fill { kOutput, kReal, kIntegers, kSteps, kAbsent };

struct Spec {
  DType dtype;
  std::vector<int64_t> shape;
  Fill fill = Fill::kReal;
  double scale = 1.0;  // of kReal; negative: values between 0 and its magnitude
  int64_t first = 0, modulus = 1;  // of kIntegers; of kSteps the modulus is the step
  bool any_width = false;  // the last dimension is independent of other tensors
};

inline Spec output(DType dtype, std::vector<int64_t> shape) { return {dtype, shape, Fill::kOutput}; }
inline Spec real(DType dtype, std::vector<int64_t> shape, double scale = 1.0) { return {dtype, shape, Fill::kReal, scale}; }
inline Spec integers(DType dtype, std::vector<int64_t> shape, int64_t first, int64_t modulus) {
  return {dtype, shape, Fill::kIntegers, 1.0, first, modulus};
}
// first, first + step, first + 2 step, ...
inline Spec steps(DType dtype, std::vector<int64_t> shape, int64_t first, int64_t step) {
  return {dtype, shape, Fill::kSteps, 1.0, first, step};
}
// An optional tensor that the case omits.
inline Spec absent() { return {DType::kFloat32, {1}, Fill::kAbsent}; }
inline Spec loose(Spec spec) {
  spec.any_width = true;
  return spec;
}

struct Case {
  const char* op;
  std::vector<Spec> tensors;  // in the order of the schema, optional ones included
  std::vector<double> attributes;
  std::vector<DType> dtypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
};

constexpr DType kI32 = DType::kInt32, kI64 = DType::kInt64, kU8 = DType::kUint8;

}  // namespace mtl::tests

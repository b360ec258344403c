// Shared by native tests: statuses that are checked and freed, and tensors for the length of a scope.
#pragma once

#include <cstdio>
#include <vector>

#include "core/handle_table.h"
#include "test_program.h"

namespace mtl::tests {

// Tells whether the status is a failure with this code (any code if null) and a message; frees the status.
bool failed_with(Status status, const char* code = nullptr);
// Tells whether the status is a success; otherwise prints the status and frees it.
bool succeeded(Status status);

// A tensor for the length of a scope.
class OwnedTensor {
 public:
  OwnedTensor() = default;
  OwnedTensor(DeviceKind device, DType dtype, const int64_t* shape, int rank);
  // A view of a larger tensor that starts `offset` elements into it, so that no pointer is aligned to a
  // vector.
  static OwnedTensor offset_view(DeviceKind device, DType dtype, const int64_t* shape, int rank, int64_t offset);
  OwnedTensor(OwnedTensor&& other) noexcept;
  OwnedTensor& operator=(OwnedTensor&& other) noexcept;
  ~OwnedTensor();

  TensorHandle handle() const { return handle_; }
  TensorView view() const;
  void fill(uint32_t seed, double scale);
  void fill_integers(int64_t first, int64_t modulus);
  void fill_steps(int64_t first, int64_t step);
  void set(int64_t index, double value) const;
  double get(int64_t index) const;
  std::vector<double> values() const;

 private:
  TensorRecord record() const;
  // Writes `value(index)` to every element, through the device's own copies: the memory may not be accessible
  // to the host.
  template <typename Value>
  void write(const Value& value);

  TensorHandle handle_ = 0;
};

}  // namespace mtl::tests

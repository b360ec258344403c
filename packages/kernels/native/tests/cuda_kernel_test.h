// Shared by the tests of CUDA kernels under emulation: tensors in plain memory, poisoned and guarded, direct
// calls of the reference device, and comparison row by row.
#pragma once

#include <initializer_list>
#include <vector>

#include "backends/cuda/launch.h"
#include "core/tensor_view.h"

namespace mtl::tests {

// Memory of a tensor, aligned to 256 bytes as a device's is, all NaN (0xff) until filled, with guards on both
// sides.
class HostTensor {
 public:
  HostTensor(DType dtype, std::vector<int64_t> shape);

  TensorView view() const;
  template <typename T>
  T* data() const {
    return static_cast<T*>(view().data);
  }
  void fill(uint32_t seed, double scale);  // uniform in [-scale, scale)
  void set(int64_t index, double value);
  double get(int64_t index) const;
  bool guards_stand() const;
  bool same_bits(const HostTensor& other) const;

 private:
  size_t bytes() const;
  size_t first() const;  // index of the first byte in the storage

  DType dtype_;
  std::vector<int64_t> shape_;
  std::vector<unsigned char> storage_;
};

// Tells whether the launch succeeded; otherwise prints the emulation's findings.
bool ran(cudaError_t status);
// Calls the op's reference kernel without validation, so that outputs may have a wider dtype than inputs.
void run_reference(const char* op, const std::vector<TensorView>& tensors, const double* attributes);
// Tells whether the norm of the difference of each row of `width` is at most `tolerance` times the norm of
// the expected row plus the root mean square of such norms; false with NaN. Prints the worst row otherwise.
bool rows_agree(const char* what, const HostTensor& actual, const HostTensor& expected, int64_t width, double tolerance);

}  // namespace mtl::tests

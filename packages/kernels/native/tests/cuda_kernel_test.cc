#include "tests/cuda_kernel_test.h"

#include <cmath>
#include <cstring>

#include "backends/cpu/reference/element.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

constexpr size_t kGuardBytes = 256, kAlignment = 256;
constexpr unsigned char kGuard = 0x5a, kPoison = 0xff;

}  // namespace

HostTensor::HostTensor(DType dtype, std::vector<int64_t> shape) : dtype_(dtype), shape_(std::move(shape)) {
  storage_.assign(bytes() + 2 * kGuardBytes + kAlignment, kGuard);
  if (bytes() > 0) std::memset(storage_.data() + first(), kPoison, bytes());
}

size_t HostTensor::bytes() const {
  size_t count = size_of(dtype_);
  for (const int64_t size : shape_) count *= static_cast<size_t>(size);
  return count;
}

size_t HostTensor::first() const {
  const size_t address = reinterpret_cast<size_t>(storage_.data()) + kGuardBytes;
  return kGuardBytes + (kAlignment - address % kAlignment) % kAlignment;
}

TensorView HostTensor::view() const {
  TensorView view;
  view.data = const_cast<unsigned char*>(storage_.data()) + first();
  view.dtype = dtype_;
  view.rank = static_cast<int32_t>(shape_.size());
  for (size_t dim = 0; dim < shape_.size(); ++dim) view.shape[dim] = shape_[dim];
  return view;
}

void HostTensor::fill(uint32_t seed, double scale) {
  uint32_t state = seed * 2654435761u + 12345u;
  for (int64_t index = 0; index < view().size(); ++index) {
    state = state * 1664525u + 1013904223u;
    set(index, (static_cast<double>(state >> 8) / 8388608.0 - 1.0) * scale);
  }
}

void HostTensor::set(int64_t index, double value) { reference::set(view(), index, value); }
double HostTensor::get(int64_t index) const { return reference::get(view(), index); }

bool HostTensor::guards_stand() const {
  for (size_t byte = 0; byte < storage_.size(); ++byte) {
    const bool inside = byte >= first() && byte < first() + bytes();
    if (!inside && storage_[byte] != kGuard) return false;
  }
  return true;
}

bool HostTensor::same_bits(const HostTensor& other) const {
  return bytes() == other.bytes() && std::memcmp(view().data, other.view().data, bytes()) == 0;
}

bool ran(cudaError_t status) {
  if (status != cudaSuccess) std::printf("  got status %d: %s\n", status, emulation::error());
  emulation::clear_error();
  return status == cudaSuccess;
}

void run_reference(const char* op, const std::vector<TensorView>& tensors, const double* attributes) {
  OpCall call;
  call.op = op;
  call.tensors = tensors.data();
  call.num_tensors = static_cast<int>(tensors.size());
  call.attributes = attributes;
  EXPECT(succeeded(find_op(op)->reference(call)));
}

bool rows_agree(const char* what, const HostTensor& actual, const HostTensor& expected, int64_t width, double tolerance) {
  const int64_t num_rows = expected.view().size() / width;
  std::vector<double> norms, differences;
  double squares = 0.0;
  for (int64_t row = 0; row < num_rows; ++row) {
    double norm = 0.0, difference = 0.0;
    for (int64_t index = row * width; index < (row + 1) * width; ++index) {
      const double right = expected.get(index), off = actual.get(index) - right;
      norm += right * right;
      difference += off * off;
    }
    norms.push_back(std::sqrt(norm));
    differences.push_back(std::sqrt(difference));
    squares += norm < 1e30 ? norm : 0.0;  // finite substitutes for infinity are not typical rows
  }
  const double typical = std::sqrt(squares / static_cast<double>(num_rows));
  int64_t worst = -1;
  double excess = 1.0;
  for (int64_t row = 0; row < num_rows; ++row) {
    const size_t index = static_cast<size_t>(row);
    const double ratio = differences[index] / (tolerance * (norms[index] + typical) + 1e-30);
    if (!(ratio <= excess)) worst = row, excess = ratio;
  }
  if (worst < 0) return true;
  std::printf("  %s, row %lld: off by %.3g times what is allowed; %g, expected %g first\n", what,
              static_cast<long long>(worst), excess, actual.get(worst * width), expected.get(worst * width));
  return false;
}

}  // namespace mtl::tests

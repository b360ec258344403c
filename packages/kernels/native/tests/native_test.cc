#include "tests/native_test.h"

#include <cstring>
#include <vector>

#include "backends/cpu/threads.h"
#include "backends/cpu/reference/element.h"

// Tests cover allocations that the system rejects, so the sanitizer must reject them the same way instead of
// ending the run.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() { return "allocator_may_return_null=1:detect_leaks=1"; }
extern "C" __attribute__((visibility("default"))) const char* __ubsan_default_options() { return "print_stacktrace=1"; }

namespace mtl::tests {

bool failed_with(Status status, const char* code) {
  const bool as_expected = !status.ok() && status.message != nullptr && status.message[0] != '\0' &&
                           (code == nullptr || std::strcmp(code, status.code) == 0);
  if (!as_expected) std::printf("  got %s: %s\n", status.ok() ? "success" : status.code, status.ok() ? "" : status.message);
  discard(status);
  return as_expected;
}

bool succeeded(Status status) {
  if (status.ok()) return true;
  std::printf("  got %s: %s\n", status.code, status.message);
  discard(status);
  return false;
}

OwnedTensor::OwnedTensor(DeviceKind device, DType dtype, const int64_t* shape, int rank) {
  EXPECT(succeeded(create_tensor(device, dtype, shape, rank, &handle_)));
}

OwnedTensor OwnedTensor::offset_view(DeviceKind device, DType dtype, const int64_t* shape, int rank, int64_t offset) {
  int64_t size = offset;
  int64_t elements = 1;
  for (int dim = 0; dim < rank; ++dim) elements *= shape[dim];
  size += elements;
  const OwnedTensor base(device, dtype, &size, 1);
  OwnedTensor view;
  EXPECT(succeeded(create_view(base.handle(), offset, shape, rank, &view.handle_)));
  return view;  // the base's handle is released, its memory stays
}

OwnedTensor::OwnedTensor(OwnedTensor&& other) noexcept : handle_(other.handle_) { other.handle_ = 0; }

OwnedTensor& OwnedTensor::operator=(OwnedTensor&& other) noexcept {
  const TensorHandle mine = handle_;
  handle_ = other.handle_;
  other.handle_ = mine;
  return *this;
}

OwnedTensor::~OwnedTensor() {
  if (handle_ != 0) EXPECT(succeeded(release_tensor(handle_)));
}

TensorRecord OwnedTensor::record() const {
  TensorRecord record;
  EXPECT(succeeded(resolve_tensor(handle_, &record)));
  return record;
}

TensorView OwnedTensor::view() const { return record().view; }

template <typename Value>
void OwnedTensor::write(const Value& value) {
  const TensorRecord mine = record();
  std::vector<char> bytes(static_cast<size_t>(mine.view.size()) * size_of(mine.view.dtype));
  TensorView host = mine.view;
  host.data = bytes.data();
  for (int64_t index = 0; index < host.size(); ++index) reference::set(host, index, value(index));
  if (bytes.empty()) return;
  EXPECT(succeeded(backend_of(mine.device)->copy_from_host(mine.view.data, bytes.data(), bytes.size())));
}

void OwnedTensor::fill(uint32_t seed, double scale) {
  uint32_t state = seed * 2654435761u + 12345u;
  write([&](int64_t) {
    state = state * 1664525u + 1013904223u;
    const double unit = static_cast<double>(state >> 8) / 8388608.0 - 1.0;
    // unsigned scale: negative means values in (0, |scale|], for arguments of square roots and for divisors
    return scale >= 0 ? unit * scale : (unit + 1.0) * -0.4 * scale + 0.2 * -scale;
  });
}

void OwnedTensor::fill_integers(int64_t first, int64_t modulus) {
  write([&](int64_t index) { return static_cast<double>(first + index * 7 % modulus); });
}

void OwnedTensor::fill_steps(int64_t first, int64_t step) {
  write([&](int64_t index) { return static_cast<double>(first + index * step); });
}

void OwnedTensor::set(int64_t index, double value) const {
  const TensorRecord mine = record();
  const size_t size = size_of(mine.view.dtype);
  char bytes[sizeof(double)];
  TensorView host = mine.view;
  host.data = bytes;
  reference::set(host, 0, value);
  char* const at = static_cast<char*>(mine.view.data) + static_cast<size_t>(index) * size;
  EXPECT(succeeded(backend_of(mine.device)->copy_from_host(at, bytes, size)));
}

double OwnedTensor::get(int64_t index) const { return values()[static_cast<size_t>(index)]; }

std::vector<double> OwnedTensor::values() const {
  const TensorRecord mine = record();
  std::vector<char> bytes(static_cast<size_t>(mine.view.size()) * size_of(mine.view.dtype));
  if (bytes.empty()) return {};
  EXPECT(succeeded(backend_of(mine.device)->copy_to_host(bytes.data(), mine.view.data, bytes.size())));
  TensorView host = mine.view;
  host.data = bytes.data();
  std::vector<double> values;
  for (int64_t index = 0; index < host.size(); ++index) values.push_back(reference::get(host, index));
  return values;
}

}  // namespace mtl::tests

int main(int argc, char** argv) {
  using namespace mtl;
  using namespace mtl::tests;
  // Two threads on every machine: parallel regions run, and the order of sums is the same everywhere.
  EXPECT(succeeded(set_num_threads(2, false)));
  testing::TestProgram program;
  // Every test releases all its memory: a leak is attributed to the test that caused it.
  program.after_each = [] {
    EXPECT(num_live_tensors() == 0);
    EXPECT(host_allocator().statistics().num_allocations == 0);
    EXPECT(host_allocator().statistics().bytes_in_use == 0);
  };
  program.at_end = [] {
    host_allocator().trim();
    EXPECT(host_allocator().statistics().bytes_reserved == 0);
  };
  return testing::run_tests(argc, argv, program);
}

// Views that share memory, compared with the addresses of all of their bytes, and calls whose outputs share
// memory.
#include "core/shared_memory.h"

#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "core/op_registry.h"
#include "core/run_op.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

// The addresses of the elements, in order.
std::vector<int64_t> addresses_of(const TensorView& view) {
  std::vector<int64_t> addresses = {static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data))};
  for (int dim = 0; dim < view.rank; ++dim) {
    std::vector<int64_t> longer;
    for (const int64_t address : addresses) {
      for (int64_t index = 0; index < view.dim(dim); ++index) {
        longer.push_back(address + index * view.stride(dim) * static_cast<int64_t>(size_of(view.dtype)));
      }
    }
    addresses = longer;
  }
  return addresses;
}

std::set<int64_t> bytes_of(const TensorView& view) {
  std::set<int64_t> bytes;
  for (const int64_t address : addresses_of(view)) {
    for (int64_t byte = 0; byte < static_cast<int64_t>(size_of(view.dtype)); ++byte) bytes.insert(address + byte);
  }
  return bytes;
}

TensorView random_view(std::mt19937& random) {
  const auto below = [&](unsigned limit) { return static_cast<int64_t>(random() % limit); };
  TensorView view;
  view.dtype = std::vector<DType>{DType::kFloat32, DType::kBFloat16, DType::kUint8}[random() % 3];
  view.data = reinterpret_cast<void*>(1000 + below(60));
  view.is_strided = below(4) > 0;
  view.rank = static_cast<int32_t>(below(4));
  for (int dim = 0; dim < view.rank; ++dim) {
    view.shape[dim] = below(5);
    view.strides[dim] = 1 + below(12);
  }
  return view;
}

MTL_TEST(views_overlap_where_their_bytes_do) {
  std::mt19937 random(1);
  int num_overlapping = 0, num_apart = 0;
  for (int round = 0; round < 4000; ++round) {
    const TensorView left = random_view(random), right = random_view(random);
    const std::set<int64_t> bytes = bytes_of(left);
    bool expected = false;
    for (const int64_t byte : bytes_of(right)) expected = expected || bytes.count(byte) > 0;
    EXPECT(overlap(left, right) == expected && overlap(right, left) == expected);
    ++(expected ? num_overlapping : num_apart);
  }
  EXPECT(num_overlapping > 500 && num_apart > 500);
}

// Overlaps of nested dimensions are detected exactly; interleaved dimensions count as overlapping.
MTL_TEST(views_overlap_themselves_where_elements_do) {
  std::mt19937 random(2);
  int num_apart = 0;
  for (int round = 0; round < 4000; ++round) {
    const TensorView view = random_view(random);
    const std::vector<int64_t> addresses = addresses_of(view);
    const bool expected = std::set<int64_t>(addresses.begin(), addresses.end()).size() < addresses.size();
    EXPECT(!expected || overlaps_itself(view));
    num_apart += overlaps_itself(view) ? 0 : 1;
  }
  EXPECT(num_apart > 500);
  TensorView heads = {nullptr, DType::kFloat32, 3, {5, 2, 4}, true, {24, 12, 1}};
  EXPECT(!overlaps_itself(heads));
  heads.strides[1] = 3;
  EXPECT(overlaps_itself(heads));
}

int op_named(const char* name) {
  int index = 0;
  while (std::strcmp(op_at(index)->schema.name, name) != 0) ++index;
  return index;
}

// Returns a view [4, 6] of a tensor of 100 elements, from element `offset` on, with `stride` elements from
// one row to the next.
TensorHandle rows_of(const OwnedTensor& base, int64_t offset, int64_t stride) {
  const int64_t shape[] = {4, 6}, strides[] = {stride, 1};
  TensorHandle view = 0;
  EXPECT(succeeded(create_strided_view(base.handle(), offset, shape, strides, 2, &view)));
  return view;
}

MTL_TEST(outputs_whose_elements_overlap_are_refused) {
  const int64_t size[] = {100}, shape[] = {4, 6};
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kReference, DeviceKind::kMeta, DeviceKind::kMetaCuda}) {
    const OwnedTensor base(device, DType::kFloat32, size, 1), input(device, DType::kFloat32, shape, 2);
    for (const int64_t stride : {5, 6, 9}) {
      const TensorHandle view = rows_of(base, 0, stride), call[] = {view, input.handle()}, back[] = {input.handle(), view};
      const Status status = run_op(op_named("cast"), call, 2, nullptr, 0);
      EXPECT(stride == 5 ? failed_with(status, "MTL_SHAPE") : succeeded(status));
      EXPECT(succeeded(run_op(op_named("cast"), back, 2, nullptr, 0)));  // inputs may overlap
      EXPECT(succeeded(release_tensor(view)));
    }
  }
}

MTL_TEST(outputs_that_share_memory_are_refused) {
  const int64_t size[] = {100}, shape[] = {4, 6}, width[] = {6}, per_row[] = {4};
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kReference, DeviceKind::kMeta, DeviceKind::kMetaCuda}) {
    const OwnedTensor base(device, DType::kFloat32, size, 1), rows(device, DType::kFloat32, shape, 2),
        weight(device, DType::kFloat32, width, 1), rstd(device, DType::kFloat32, per_row, 1);
    rows.set(0, 1.0);
    const double attributes[] = {1e-5, 6.0};  // epsilon and the width of rows
    // rows of 6 with gaps of 4; a gap follows the first row
    const TensorHandle output = rows_of(base, 0, 10);
    for (const int64_t first : {6, 5, 2}) {
      TensorHandle statistic = 0;
      EXPECT(succeeded(create_view(base.handle(), first, per_row, 1, &statistic)));
      const TensorHandle call[] = {output, statistic, rows.handle(), weight.handle(), 0};  // no sums of squares
      const Status status = run_op(op_named("rms_norm_forward"), call, 5, attributes, 2);
      if (!status.ok()) EXPECT(std::strstr(status.message, "the outputs output and rstd overlap") != nullptr);
      EXPECT(first == 6 ? succeeded(status) : failed_with(status, "MTL_SHAPE"));
      EXPECT(succeeded(release_tensor(statistic)));
    }
    EXPECT(succeeded(release_tensor(output)));
  }
}

}  // namespace
}  // namespace mtl::tests

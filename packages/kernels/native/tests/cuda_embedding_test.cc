// The order of summation of the embedding's gradient depends only on ids, not on the order of threads. Under
// emulation.
#include <algorithm>

#include "backends/cuda/loader/cuda_loader.h"
#include "tests/cuda_for_tests.h"
#include "tests/cuda_kernel_test.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

using emulation::Order;

constexpr int64_t kTokens = 4500, kRows = 700, kColumns = 4, kFirstRow = 20;
constexpr size_t kChunk = 64;  // as in backends/cuda/kernels/embedding.cu

// Some ids are frequent, most are rare, and some have no row.
int id_of(int64_t token) {
  const uint32_t noise = static_cast<uint32_t>(token) * 2654435761u >> 8;
  return static_cast<int>(token % 3 == 0 ? 300 + noise % 2 : noise % 740);
}

// Adds gradients in float32 and in the documented order: tokens sorted by row, in chunks; within a row and
// chunk in token order, then chunk by chunk.
void add_in_order(const HostTensor& gradient, const HostTensor& output_gradient, const HostTensor& ids) {
  std::vector<int64_t> order;
  const auto row_of = [&](int64_t token) { return static_cast<int64_t>(ids.get(token)) - kFirstRow; };
  for (int64_t token = 0; token < kTokens; ++token) {
    if (row_of(token) >= 0 && row_of(token) < kRows) order.push_back(token);
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return row_of(a) < row_of(b); });
  for (int64_t column = 0; column < kColumns; ++column) {
    for (size_t at = 0; at < order.size();) {
      const int64_t row = row_of(order[at]);
      float total = 0.0f;
      while (at < order.size() && row_of(order[at]) == row) {
        float sum = 0.0f;
        do {
          sum += output_gradient.data<float>()[order[at] * kColumns + column];
          ++at;
        } while (at < order.size() && at % kChunk != 0 && row_of(order[at]) == row);
        total += sum;
      }
      gradient.data<float>()[row * kColumns + column] += total;
    }
  }
}

MTL_TEST(the_gradient_of_an_embedding_is_added_up_in_one_order) {
  if (!open_cuda_for_tests() || is_gpu_under_test()) return;
  HostTensor values(DType::kFloat32, {kTokens, kColumns}), tokens(DType::kInt32, {kTokens});
  values.fill(5, 1.0);
  for (int64_t token = 0; token < kTokens; ++token) tokens.set(token, id_of(token));
  HostTensor expected(DType::kFloat32, {kRows, kColumns});
  expected.fill(6, 1.0);
  add_in_order(expected, values, tokens);
  const double attributes[] = {double{kFirstRow}, 740};
  for (const Order order : {Order::kAscending, Order::kDescending, Order::kShuffled}) {
    emulation::set_order(order, 7);
    HostTensor gradient(DType::kFloat32, {kRows, kColumns});
    gradient.fill(6, 1.0);
    const TensorView views[] = {gradient.view(), values.view(), tokens.view()};
    OpCall call;
    call.op = "embedding_backward";
    call.tensors = views;
    call.num_tensors = 3;
    call.attributes = attributes;
    call.num_attributes = 2;
    EXPECT(succeeded(cuda_backend()->find_kernel(call.op)(call)));
    EXPECT(gradient.same_bits(expected));
    EXPECT(gradient.guards_stand());
  }
  emulation::set_order(Order::kAscending);
}

}  // namespace
}  // namespace mtl::tests

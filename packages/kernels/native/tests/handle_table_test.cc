// Handles, views and the allocator: misuse is an error, memory is counted, threads are isolated.
#include <cstring>
#include <thread>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "core/run_op.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

constexpr DeviceKind kCpu = DeviceKind::kCpu;
constexpr DType kFloat = DType::kFloat32;

MTL_TEST(a_released_handle_is_refused_even_after_its_slot_is_reused) {
  const int64_t shape[] = {3};
  TensorHandle first = 0;
  EXPECT(succeeded(create_tensor(kCpu, kFloat, shape, 1, &first)));
  EXPECT(succeeded(release_tensor(first)));
  const OwnedTensor second(kCpu, kFloat, shape, 1);
  EXPECT(second.handle() != first);
  TensorRecord record;
  TensorHandle view;
  EXPECT(failed_with(resolve_tensor(first, &record), "MTL_DISPOSED_TENSOR"));
  EXPECT(failed_with(release_tensor(first), "MTL_DISPOSED_TENSOR"));
  EXPECT(failed_with(create_view(first, 0, shape, 1, &view), "MTL_DISPOSED_TENSOR"));
}

MTL_TEST(numbers_that_never_were_handles_are_refused) {
  TensorRecord record;
  for (const TensorHandle unknown : {TensorHandle{0}, TensorHandle{1}, ~TensorHandle{0}, TensorHandle{1} << 52,
                                     (TensorHandle{1} << 24) | 0xffffff}) {
    EXPECT(failed_with(resolve_tensor(unknown, &record), "MTL_DISPOSED_TENSOR"));
    EXPECT(failed_with(release_tensor(unknown), "MTL_DISPOSED_TENSOR"));
  }
}

MTL_TEST(a_view_keeps_the_memory_of_its_base_alive) {
  const int64_t shape[] = {8};
  const int64_t half[] = {4};
  TensorHandle base = 0;
  EXPECT(succeeded(create_tensor(kCpu, kFloat, shape, 1, &base)));
  TensorRecord record;
  EXPECT(succeeded(resolve_tensor(base, &record)));
  for (int i = 0; i < 8; ++i) static_cast<float*>(record.view.data)[i] = static_cast<float>(i);
  TensorHandle view = 0, view_of_view = 0;
  EXPECT(succeeded(create_view(base, 4, half, 1, &view)));
  EXPECT(succeeded(release_tensor(base)));
  const int64_t one[] = {1};
  EXPECT(succeeded(create_view(view, 3, one, 1, &view_of_view)));
  EXPECT(succeeded(release_tensor(view)));
  EXPECT(host_allocator().statistics().num_allocations == 1);
  EXPECT(succeeded(resolve_tensor(view_of_view, &record)));
  EXPECT(*static_cast<float*>(record.view.data) == 7.0f);
  EXPECT(succeeded(release_tensor(view_of_view)));
}

MTL_TEST(strided_views_stay_inside_their_base_and_are_refused_as_tensors) {
  const int64_t shape[] = {5, 3}, two[] = {2, 2}, one[] = {2, 1}, none[] = {0, 2}, strides[] = {6, 2}, zero[] = {0, 2}, huge[] = {INT64_MAX, 1};
  const OwnedTensor base(kCpu, kFloat, shape, 2);
  TensorHandle view = 0, handle = 0;
  TensorRecord record;
  EXPECT(succeeded(create_strided_view(base.handle(), 6, two, strides, 2, &view)));  // elements 6, 8, 12, 14
  EXPECT(succeeded(resolve_view(view, &record)));
  EXPECT(record.view.is_strided && record.view.stride(0) == 6 && record.view.stride(-1) == 2);
  EXPECT(record.view.data == static_cast<float*>(base.view().data) + 6);
  EXPECT(failed_with(resolve_tensor(view, &record), "MTL_SHAPE"));
  EXPECT(failed_with(create_view(view, 0, none, 2, &handle), "MTL_SHAPE"));
  EXPECT(failed_with(create_strided_view(view, 1, two, strides, 2, &handle), "MTL_SHAPE"));
  EXPECT(succeeded(create_strided_view(view, 2, one, strides, 2, &handle)));  // elements 8 and 14
  EXPECT(succeeded(release_tensor(view)));
  EXPECT(succeeded(resolve_view(handle, &record)));
  EXPECT(record.view.data == static_cast<float*>(base.view().data) + 8 && record.view.stride(0) == 6);
  EXPECT(succeeded(release_tensor(handle)));
  EXPECT(failed_with(create_strided_view(base.handle(), 7, two, strides, 2, &handle), "MTL_SHAPE"));
  EXPECT(failed_with(create_strided_view(base.handle(), -1, two, strides, 2, &handle), "MTL_SHAPE"));
  EXPECT(failed_with(create_strided_view(base.handle(), 0, two, zero, 2, &handle), "MTL_SHAPE"));
  EXPECT(failed_with(create_strided_view(base.handle(), 0, two, huge, 2, &handle), "MTL_SHAPE"));
  EXPECT(succeeded(create_strided_view(base.handle(), 15, none, strides, 2, &view)));  // empty, at the end
  EXPECT(succeeded(release_tensor(view)));
}

MTL_TEST(views_and_shapes_that_do_not_fit_are_refused) {
  const int64_t shape[] = {5, 3};
  const OwnedTensor base(kCpu, kFloat, shape, 2);
  TensorHandle handle = 0;
  const int64_t whole[] = {15}, larger[] = {16}, negative[] = {-1};
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40, 0};
  const int64_t most[] = {INT64_MAX};
  EXPECT(failed_with(create_view(base.handle(), 1, whole, 1, &handle), "MTL_SHAPE"));
  EXPECT(failed_with(create_view(base.handle(), -1, whole, 1, &handle), "MTL_SHAPE"));
  EXPECT(failed_with(create_view(base.handle(), INT64_MAX, whole, 1, &handle), "MTL_SHAPE"));
  EXPECT(failed_with(create_view(base.handle(), 0, larger, 1, &handle), "MTL_SHAPE"));
  EXPECT(failed_with(create_tensor(kCpu, kFloat, negative, 1, &handle), "MTL_SHAPE"));
  EXPECT(failed_with(create_tensor(kCpu, kFloat, huge, 3, &handle), "MTL_SHAPE"));
  EXPECT(failed_with(create_tensor(kCpu, kFloat, most, 1, &handle), "MTL_SHAPE"));
  const int64_t seven[] = {1, 1, 1, 1, 1, 1, 1};
  EXPECT(failed_with(create_tensor(kCpu, kFloat, seven, 7, &handle), "MTL_SHAPE"));
  // another test may have opened the device already
  EXPECT(backend_of(DeviceKind::kCuda) != nullptr ||
         failed_with(create_tensor(DeviceKind::kCuda, kFloat, whole, 1, &handle), "MTL_DEVICE"));
}

MTL_TEST(no_elements_and_no_dimensions_are_tensors_too) {
  const int64_t none[] = {4, 0};
  const OwnedTensor empty(kCpu, kFloat, none, 2);
  EXPECT(empty.view().size() == 0 && empty.view().rows() == 0);
  const OwnedTensor scalar(kCpu, kFloat, nullptr, 0);
  EXPECT(scalar.view().size() == 1);
}

MTL_TEST(the_limit_holds_and_its_error_leaves_nothing_behind) {
  host_allocator().trim();
  host_allocator().set_limit(1 << 20);
  const int64_t small[] = {1 << 16}, large[] = {1 << 18};
  {
    const OwnedTensor first(kCpu, kFloat, small, 1);
    TensorHandle handle = 0;
    EXPECT(failed_with(create_tensor(kCpu, kFloat, large, 1, &handle), "MTL_OUT_OF_MEMORY"));
    EXPECT(host_allocator().statistics().num_allocations == 1);
  }
  host_allocator().set_limit(0);
  const OwnedTensor afterwards(kCpu, kFloat, large, 1);
}

MTL_TEST(the_system_refusing_memory_is_an_error) {
  const int64_t shape[] = {int64_t{900} << 40};  // 3.6 PB: more than any address space
  TensorHandle handle = 0;
  EXPECT(failed_with(create_tensor(kCpu, kFloat, shape, 1, &handle), "MTL_OUT_OF_MEMORY"));
}

MTL_TEST(the_peak_is_the_highest_sum_of_blocks) {
  host_allocator().trim();
  host_allocator().reset_peak();
  const int64_t shape[] = {1024};
  {
    const OwnedTensor a(kCpu, kFloat, shape, 1);
    const OwnedTensor b(kCpu, kFloat, shape, 1);
    EXPECT(host_allocator().statistics().bytes_in_use == 8192);
  }
  const OwnedTensor c(kCpu, kFloat, shape, 1);
  EXPECT(host_allocator().statistics().peak_bytes == 8192);
  EXPECT(host_allocator().statistics().bytes_reserved == 8192);
  host_allocator().reset_peak();
  EXPECT(host_allocator().statistics().peak_bytes == 4096);
}

MTL_TEST(tensors_that_reuse_a_larger_block_count_by_their_size) {
  host_allocator().trim();
  const int64_t larger[] = {294912}, smaller[] = {262144};  // 1.125 MiB and 1 MiB
  { const OwnedTensor tensor(kCpu, kFloat, larger, 1); }
  {
    const OwnedTensor tensor(kCpu, kFloat, smaller, 1);  // in the block of the larger one
    EXPECT(host_allocator().statistics().bytes_in_use == 1048576);
    EXPECT(host_allocator().statistics().bytes_reserved == 1179648);
  }
  EXPECT(host_allocator().statistics().bytes_in_use == 0);
  const OwnedTensor again(kCpu, kFloat, larger, 1);
  EXPECT(host_allocator().statistics().bytes_in_use == 1179648);
  EXPECT(host_allocator().statistics().bytes_reserved == 1179648);
}

MTL_TEST(poison_fills_new_memory_with_nan) {
  set_poison(true);
  const int64_t shape[] = {5};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
    const OwnedTensor tensor(kCpu, dtype, shape, 1);
    for (int64_t index = 0; index < 5; ++index) EXPECT(tensor.get(index) != tensor.get(index));
  }
  set_poison(false);
}

// The work of one of several threads: it creates, views, writes, computes and releases tensors, and finds its
// own values at the end.
void work_alone(int seed) {
  const int op = [] {
    int index = 0;
    while (std::strcmp(op_at(index)->schema.name, "matmul") != 0) ++index;
    return index;
  }();
  const int64_t shape[] = {7, 7};
  for (int round = 0; round < 200; ++round) {
    OwnedTensor left(kCpu, kFloat, shape, 2), right(kCpu, kFloat, shape, 2), output(kCpu, kFloat, shape, 2);
    const OwnedTensor filler(kCpu, kFloat, shape, 1 + round % 2);
    for (int64_t i = 0; i < 49; ++i) {
      static_cast<float*>(left.view().data)[i] = i % 8 == 0 ? static_cast<float>(seed) : 0.0f;  // seed * identity
      static_cast<float*>(right.view().data)[i] = static_cast<float>(i + round);
    }
    if (round % 10 == 0) {
      const TensorHandle handles[] = {output.handle(), left.handle(), right.handle(), 0};
      const double attributes[] = {0, 0, 0};
      EXPECT(succeeded(run_op(op, handles, 4, attributes, 3)));
      for (int64_t i = 0; i < 49; ++i) EXPECT(output.get(i) == static_cast<double>(seed * (i + round)));
    }
  }
}

MTL_TEST(threads_share_the_table_the_allocator_and_matmuls) {
  std::vector<std::thread> threads;
  for (int seed = 1; seed <= 4; ++seed) threads.emplace_back(work_alone, seed);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace mtl::tests

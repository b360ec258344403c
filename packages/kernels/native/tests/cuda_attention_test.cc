// The CUDA attention kernels, run under emulation and compared with the reference device: all head widths,
// dtypes, masks and dropout, in several thread orders, with outputs poisoned and guarded.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "backends/cpu/reference/element.h"
#include "backends/cuda/attention/attention.h"
#include "backends/cuda/attention/hopper_queries.cuh"
#include "tests/attention_case.h"
#include "tests/cuda_kernel_test.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

using emulation::Order;

using Case = AttentionCase;
using Tensors = AttentionTensors;

void run_kernels(const Case& one, Tensors& tensors) {
  const AttentionCall call = call_of(one, tensors);
  const AttentionProblem problem = call.problem();
  int32_t* const first_keys = tensors.first_keys.data<int32_t>();
  EXPECT(ran(cuda::attention_forward({problem, nullptr, first_keys})));
  call.sum_rows();
  EXPECT(ran(cuda::attention_backward({problem, nullptr, first_keys})));
}

// Error of a row (one head of one position), relative to its norm and the norm of a typical row. bfloat16 has
// 8 bits, so results are rounded by up to 2^-9, and so are the probabilities and score gradients that enter
// the second matmuls; float16 8 times less. float32: sums of up to 256 and 200 terms in another order. A
// wrong mask bit changes a row by about 1 / sequence, 5e-3 at the longest sequences here and 0.1 or more at
// their many short ranges.
double row_tolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 4e-6 : dtype == DType::kBFloat16 ? 8e-3 : 1e-3;
}

// Checks the kernels of one kind. "mma.sync": the kernels for GPUs before Hopper, also used on Hopper for
// shapes that its own kernels do not support. Empty: the kernels that the GPU chooses.
void check_kernels(const Case& one, DType dtype, const Tensors& expected, const char* kernels) {
  setenv("MTL_CUDA_ATTENTION", kernels, 1);
  std::vector<Tensors> results;
  for (const Order order : {Order::kDescending, Order::kShuffled}) {
    emulation::set_order(order, 11);
    results.emplace_back(one, dtype);
    run_kernels(one, results.back());
    // every sum has a fixed order: no bit depends on which threads run first
    EXPECT(results.back().output.same_bits(results.front().output));
    EXPECT(results.back().log_sum_exp.same_bits(results.front().log_sum_exp));
    EXPECT(results.back().qkv_gradient.same_bits(results.front().qkv_gradient));
    EXPECT(results.back().output.guards_stand() && results.back().log_sum_exp.guards_stand() &&
           results.back().qkv_gradient.guards_stand());
  }
  emulation::set_order(Order::kAscending);
  unsetenv("MTL_CUDA_ATTENTION");
  const std::string name = name_of_case(one, dtype) + " " + kernels;
  const double tolerance = row_tolerance(dtype);
  EXPECT(rows_agree((name + " output").c_str(), results[0].output, expected.output, one.head_size, tolerance));
  // the log of a sum of float32 exponentials
  EXPECT(rows_agree((name + " logSumExp").c_str(), results[0].log_sum_exp, expected.log_sum_exp, 1, 2e-6));
  EXPECT(rows_agree((name + " gradient").c_str(), results[0].qkv_gradient, expected.qkv_gradient, one.head_size, 2 * tolerance));
}

// The emulated GPU is a Hopper: cases that its own kernels support run with both kinds.
bool has_both_kinds(const Case& one, DType dtype) {
  return dtype != DType::kFloat32 && one.head_size % 8 == 0 && one.head_size >= 40;
}

void check(const Case& one, DType dtype) {
  const Tensors expected = reference_of(one, dtype);
  check_kernels(one, dtype, expected, "");
  if (has_both_kinds(one, dtype)) check_kernels(one, dtype, expected, "mma.sync");
}

constexpr DType kHalves[] = {DType::kBFloat16, DType::kFloat16};

}  // namespace

MTL_TEST(cuda_attention_agrees_at_every_width) {
  for (const int64_t head_size : {8, 40, 64, 72, 80, 96, 128, 184, 192, 256}) {
    check({70, 1, 1, head_size, true}, DType::kBFloat16);
    check({70, 1, 1, head_size, false, 0.3}, DType::kFloat16);
  }
}

MTL_TEST(cuda_attention_agrees_under_every_mask) {
  for (const DType dtype : kHalves) {
    for (const bool causal : {false, true}) {
      check({1, 2, 3, 64, causal}, dtype);
      check({64, 2, 1, 64, causal}, dtype);
      check({129, 1, 1, 64, causal, 0.0, false, false, 0.3}, dtype);
      check({200, 2, 1, 64, causal, 0.0, true}, dtype);
      check({200, 3, 1, 64, causal, 0.0, false, true}, dtype);
    }
    check({200, 2, 1, 64, dtype == DType::kFloat16, 0.2, true, true}, dtype);
  }
}

// Hopper's kernels alone: several blocks of 128 queries and keys, the last block with one row or none in its
// second half; tiles that are masked completely; rings that wrap around.
MTL_TEST(cuda_attention_on_hopper_agrees_over_many_tiles) {
  const auto check_hopper = [](const Case& one, DType dtype) { check_kernels(one, dtype, reference_of(one, dtype), ""); };
  check_hopper({641, 1, 1, 64, true}, DType::kBFloat16);
  check_hopper({450, 1, 1, 96, false}, DType::kFloat16);
  check_hopper({400, 2, 1, 80, false, 0.2, true}, DType::kFloat16);
  check_hopper({390, 2, 1, 128, false, 0.1, false, true}, DType::kBFloat16);
  check_hopper({200, 1, 1, 192, true}, DType::kFloat16);
  check_hopper({140, 2, 1, 256, false, 0.1, true, true}, DType::kBFloat16);
}

// Every tile is taken once, one section of heads after the other; in a section, the last tiles of all heads
// come first.
MTL_TEST(cuda_attention_on_hopper_lists_every_tile_of_queries_once) {
  for (const cuda::QueryList list : {cuda::QueryList{5, 7, 3}, cuda::QueryList{1, 4, 4}, cuda::QueryList{3, 6, 1}}) {
    std::vector<int> times(list.count());
    cuda::QueryTile before = {0, list.tiles_of_head - 1};
    for (int number = 0; number < list.count(); ++number) {
      const cuda::QueryTile taken = cuda::tile_of_list(list, number);
      EXPECT(taken.head < list.heads && taken.tile >= 0);
      if (taken.head >= list.heads || taken.tile < 0) return;
      ++times[taken.head * list.tiles_of_head + taken.tile];
      const int section = taken.head / list.heads_of_section, section_before = before.head / list.heads_of_section;
      EXPECT(section == section_before ? taken.tile <= before.tile : section == section_before + 1);
      before = taken;
    }
    EXPECT(std::count(times.begin(), times.end(), 1) == list.count());
  }
}

// More tiles than multiprocessors, so that a block computes several: some without keys, some past the last
// visible key of the key mask, and two launches with one counter.
MTL_TEST(cuda_attention_on_hopper_agrees_over_many_tiles_of_queries) {
  for (const int64_t head_size : {64, 256}) {
    const Case one = {300, 2, 2, head_size, true, 0.0, true, true};
    const Tensors expected = reference_of(one, DType::kBFloat16);
    for (int launch = 0; launch < 2; ++launch) check_kernels(one, DType::kBFloat16, expected, "");
  }
}

// Keys and values shared by several heads: their gradients are sums over the heads.
MTL_TEST(cuda_attention_agrees_in_groups) {
  const auto groups_of = [](int64_t members, Case one) {
    one.members = members;
    return one;
  };
  for (const int64_t head_size : {64, 96, 128, 192, 256}) {
    check(groups_of(2, {70, 1, 2, head_size, true}), DType::kBFloat16);
    check(groups_of(2, {70, 1, 2, head_size, false, 0.3}), DType::kFloat16);
  }
  check(groups_of(2, {140, 2, 4, 64, true, 0.2, true, true}), DType::kBFloat16);
  check(groups_of(4, {140, 2, 4, 40, false, 0.0, true, true}), DType::kFloat16);
  check(groups_of(4, {66, 2, 8, 80, true}), DType::kFloat16);
  check(groups_of(2, {40, 2, 4, 24, true, 0.2, true, true}), DType::kFloat32);
  check(groups_of(3, {33, 1, 3, 12}), DType::kBFloat16);
}

// A query attends to its own key and to `window` keys before it: tiles that no query of a block sees are
// skipped at both ends, and tiles are masked at one or both.
MTL_TEST(cuda_attention_agrees_in_windows) {
  const auto window_of = [](int64_t window, Case one) {
    one.window = window;
    one.causal = true;
    return one;
  };
  for (const int64_t window : {0, 3, 64, 127, 300}) check(window_of(window, {200, 1, 1, 64}), DType::kBFloat16);
  check(window_of(50, {260, 2, 2, 64, true, 0.2, true, true, 0.0, 2}), DType::kFloat16);
  check(window_of(20, {140, 1, 1, 192}), DType::kBFloat16);
  check(window_of(20, {140, 1, 1, 256, true, 0.1}), DType::kFloat16);
  for (const int64_t window : {0, 5, 40}) check(window_of(window, {129, 2, 2, 24, true, 0.2, true, true, 0.0, 2}), DType::kFloat32);
}

// Keys at other positions than the queries: some queries see none, some keys are seen by none.
MTL_TEST(cuda_attention_agrees_in_parts_of_a_sequence) {
  const auto check_from = [](int64_t first_query, int64_t first_key, Case one, DType dtype) {
    one.first_query = first_query;
    one.first_key = first_key;
    check(one, dtype);
  };
  for (const int64_t first_key : {0, 64, 200, 237, 400}) {
    check_from(200, first_key, {130, 1, 1, 64, true}, DType::kBFloat16);
    check_from(200, first_key, {90, 2, 2, 40, true, 0.2, true, true, 0.0, 2}, DType::kFloat16);
    check_from(200, first_key, {70, 1, 1, 24, true, 0.2, true}, DType::kFloat32);
  }
  for (const int64_t window : {0, 40, 100}) {
    check_from(200, 110, {130, 1, 1, 64, true, 0.1, false, false, 0.0, 1, window}, DType::kBFloat16);
    check_from(200, 110, {70, 1, 1, 24, true, 0.1, false, false, 0.0, 1, window}, DType::kFloat32);
  }
  check_from(200, 77, {130, 1, 1, 72, false, 0.3}, DType::kFloat16);
}

MTL_TEST(cuda_attention_agrees_in_float32_results) {
  for (const int64_t head_size : {24, 64, 80, 96, 128, 192, 256}) {
    Case one = {140, 2, 2, head_size, true, head_size == 64 ? 0.1 : 0.0, true, true, 0.0, 2};
    one.exact = true;
    check(one, DType::kBFloat16);
    one.first_query = 100, one.first_key = 50;
    check(one, DType::kFloat16);
  }
  Case plain = {70, 1, 2, 13, true, 0.1};
  plain.exact = true;
  check(plain, DType::kFloat32);
  check(plain, DType::kBFloat16);
}

MTL_TEST(cuda_attention_kernels_are_chosen_by_name) {
  const Case one = {64, 1, 1, 64};
  Tensors tensors(one, DType::kBFloat16);
  const cuda::AttentionForwardCall forward = {call_of(one, tensors).problem(), nullptr};
  const auto run = [&](const char* name) {
    setenv("MTL_CUDA_ATTENTION", name, 1);
    const cudaError_t status = cuda::attention_forward(forward);
    unsetenv("MTL_CUDA_ATTENTION");
    return status;
  };
  EXPECT(run("") == cudaSuccess && std::strstr(emulation::last_kernel(), "hopper") != nullptr);
  EXPECT(run("mma.sync") == cudaSuccess && std::strstr(emulation::last_kernel(), "hopper") == nullptr);
  EXPECT(run("wmma") == cudaErrorInvalidValue);
}

// Without logSumExp: the kernel for generation computes few queries; the kernels of training compute more,
// with the same bits.
MTL_TEST(cuda_attention_without_statistics_is_chosen_by_shape) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t window : {-1, 20}) {
      for (const int64_t sequence : {63, 64, 130}) {
        Case one = {sequence, 2, 2, 64, true};
        one.window = window;
        const Tensors expected = reference_of(one, dtype);
        Tensors trained(one, dtype), alone(one, dtype);
        AttentionProblem problem = call_of(one, trained).problem();
        EXPECT(ran(cuda::attention_forward({problem, nullptr, trained.first_keys.data<int32_t>()})));
        problem = call_of(one, alone).problem();
        problem.log_sum_exp = nullptr;
        EXPECT(ran(cuda::attention_forward({problem, nullptr, alone.first_keys.data<int32_t>()})));
        EXPECT((std::strstr(emulation::last_kernel(), "generation") != nullptr) == (sequence < 64));
        if (sequence >= 64) EXPECT(alone.output.same_bits(trained.output));
        EXPECT(rows_agree((name_of_case(one, dtype) + " without logSumExp").c_str(), alone.output, expected.output,
                          one.head_size, row_tolerance(dtype)));
        EXPECT(alone.output.guards_stand() && alone.log_sum_exp.guards_stand());
      }
    }
  }
}

// Cases that do not use tensor cores: float32, and head sizes that are not a multiple of 8.
MTL_TEST(cuda_attention_agrees_in_plain_arithmetic) {
  for (const int64_t head_size : {1, 5, 64, 100, 256}) check({40, 1, 2, head_size, true}, DType::kFloat32);
  check({33, 2, 1, 12, true, 0.3}, DType::kBFloat16);
  check({33, 2, 1, 12, false, 0.0, false, true}, DType::kFloat16);
  for (const bool causal : {false, true}) {
    check({1, 2, 3, 7, causal}, DType::kFloat32);
    check({129, 2, 1, 24, causal, 0.0, true}, DType::kFloat32);
    check({129, 3, 1, 24, causal, 0.0, false, true}, DType::kFloat32);
    check({129, 2, 1, 24, causal, 0.2, true, true}, DType::kFloat32);
  }
}

}  // namespace mtl::tests

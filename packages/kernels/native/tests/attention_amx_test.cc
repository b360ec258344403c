// Attention with tiles of AMX, compiled twice: for any processor, with emulated instructions of AMX, in
// vectors of 16 lanes that the compiler splits; and for AVX-512, with the instructions themselves, which are
// computed where the processor lacks them (amx_traps.h).
#ifndef MTL_ISA_HEADER
#define MTL_EMULATE_AMX
#define MTL_ISA_HEADER "tests/emulated_amx.h"
#endif

#include "backends/cpu/simd/attention_backward.h"
#include "tests/amx_traps.h"
#include "tests/attention_case.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

// Error of a row (one head of one position), relative to its norm and the norm of a typical row: results are
// rounded to 8 bits, by up to 2^-9, and so are the probabilities and score gradients that enter the second
// matmuls. A wrong mask bit changes a row by about 1 / sequence, 5e-3 at the longest sequences here and 0.1
// or more at their many short ranges.
constexpr double kRowTolerance = 8e-3;

void check(const AttentionCase& one) {
  const AttentionTensors expected = reference_of(one, DType::kBFloat16), actual(one, DType::kBFloat16);
  const AttentionCall call = call_of(one, actual);
  const AttentionProblem problem = call.problem();
  EXPECT(succeeded(forward_all<TileGemm<Tiles>, bfloat16>(problem)));
  call.sum_rows();
  EXPECT(succeeded(backward_all<TileGemm<Tiles>, bfloat16>(problem)));
  EXPECT(actual.output.guards_stand() && actual.log_sum_exp.guards_stand() && actual.qkv_gradient.guards_stand());
  const std::string name = name_of_case(one, DType::kBFloat16) + " with AMX: ";
  EXPECT(rows_agree((name + "output").c_str(), actual.output, expected.output, one.size_of_values(), kRowTolerance));
  // the log of a sum of float32 exponentials
  EXPECT(rows_agree((name + "logSumExp").c_str(), actual.log_sum_exp, expected.log_sum_exp, 1, 2e-6));
  // rows of different sizes are compared as one: a row of one element has rounding errors of any relative
  // size
  const int64_t width = one.value_size == 0 ? one.head_size : one.projection().back();
  EXPECT(rows_agree((name + "gradient").c_str(), actual.qkv_gradient, expected.qkv_gradient, width, 2 * kRowTolerance));
}

AttentionCase in_groups(AttentionCase one, int64_t members, int64_t window = -1) {
  one.members = members;
  one.window = window;
  return one;
}

}  // namespace

MTL_AMX_TEST(attention_with_tiles_of_amx_agrees_at_every_width) {
  for (const int64_t head_size : {1, 8, 20, 32, 33, 64, 72, 83, 128}) {
    check({70, 1, 1, head_size, true});
    check({130, 1, 1, head_size, false, 0.3});
  }
}

MTL_AMX_TEST(attention_with_tiles_of_amx_agrees_with_values_of_another_size) {
  using Sizes = std::pair<int64_t, int64_t>;
  for (const auto& [head_size, value_size] : {Sizes{24, 40}, Sizes{40, 24}, Sizes{64, 1}, Sizes{1, 72}, Sizes{192, 128}}) {
    AttentionCase one = {130, 2, 4, head_size, true, 0.1, true, true, 0.0, 2};
    one.value_size = value_size;
    check(one);
    one.exact = true;
    one.first_key = 50;
    check(one);
  }
}

MTL_AMX_TEST(attention_with_tiles_of_amx_agrees_under_every_mask) {
  for (const bool causal : {false, true}) {
    check({1, 2, 3, 64, causal});
    check({64, 2, 1, 64, causal});
    check({129, 1, 1, 64, causal, 0.0, false, false, 0.3});
    check({200, 2, 1, 64, causal, 0.0, true});
    check({200, 3, 1, 64, causal, 0.0, false, true});
    check({200, 2, 1, 40, causal, 0.2, true, true});
  }
}

MTL_AMX_TEST(attention_with_tiles_of_amx_agrees_in_groups_and_windows) {
  check(in_groups({140, 2, 4, 64, true, 0.2, true, true}, 2));
  check(in_groups({66, 1, 6, 80, true}, 3));
  for (const int64_t window : {0, 3, 64, 127}) check(in_groups({200, 1, 2, 64, true, 0.1}, 2, window));
}

// Keys at other positions than the queries: the first queries see none, or the last keys are seen by none;
// and tiles between two groups of dropout.
MTL_AMX_TEST(attention_with_tiles_of_amx_agrees_in_parts_of_a_sequence) {
  const auto check_from = [](int64_t first_query, int64_t first_key, AttentionCase one) {
    one.first_query = first_query;
    one.first_key = first_key;
    check(one);
  };
  for (const int64_t first_key : {0, 64, 300, 370, 600}) {
    check_from(300, first_key, {200, 1, 2, 64, true});
    check_from(300, first_key, in_groups({140, 2, 2, 40, true, 0.2, true, true}, 2));
  }
  check_from(300, 200, in_groups({200, 1, 2, 64, true, 0.1}, 1, 90));
  check_from(300, 77, {130, 1, 1, 32, false, 0.3});
}

MTL_AMX_TEST(attention_with_tiles_of_amx_agrees_with_soft_caps) {
  for (const double cap : {0.5, 20.0}) {  // most scores near the cap, and far below it
    AttentionCase one = {140, 2, 4, 40, true, 0.1, true, true, 0.0, 2};
    one.soft_cap = cap;
    check(one);
    one.first_key = 50;
    check(one);
    one = in_groups({200, 1, 2, 64, true, 0.0, false, false, 1.0}, 2, 30);
    one.soft_cap = cap;
    check(one);
  }
}

MTL_AMX_TEST(attention_with_tiles_of_amx_agrees_in_float32_results) {
  for (const int64_t head_size : {1, 33, 64}) {
    AttentionCase one = {140, 2, 2, head_size, true, 0.1, true, true, 0.0, 2};
    one.exact = true;
    check(one);
    one.first_key = 50;
    check(one);
  }
}

}  // namespace mtl::tests

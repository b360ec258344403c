// Every operation at odd sizes on the reference and with the kernels of every instruction set: whole tensors,
// unaligned views, every subset of the optional tensors, and invalid arguments. Values are compared roughly
// (the case tables of test/op-cases compare them precisely); these tests check which memory is accessed.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/instruction_sets.h"
#include "core/run_op.h"
#include "emulation/block.h"
#include "tests/cuda_for_tests.h"
#include "tests/expert_cases.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

struct AttentionSizes {
  int64_t sequence, batch, heads, size;
  int64_t more_keys = 0;  // keys before query 0: the queries are at the last positions
  int64_t window = -1;
  int64_t first_key = 0;  // position of key 0; if above 0, some queries are before it
  double soft_cap = 0;
};

// Adds cases of forward and backward: causal, with all masks.
void add_attention(std::vector<Case>& cases, const AttentionSizes& of, double dropout, const std::vector<DType>& dtypes) {
  const auto [sequence, batch, heads, size, more_keys, window, first_key, soft_cap] = of;
  const int64_t num_keys = sequence + more_keys;
  const std::vector<int64_t> out = {sequence, batch, heads, size}, lse = {batch, heads, sequence}, keys = {num_keys, batch, heads, size};
  const Spec operand = real(kCompute, out), key = real(kCompute, keys), gradient = output(kCompute, out),
             key_gradient = output(kCompute, keys);
  const std::vector<double> attributes = {1, static_cast<double>(window), static_cast<double>(more_keys), static_cast<double>(first_key),
                                          0, 0, 0, 0.3, soft_cap, dropout, 7, 8, 4};
  // key starts before the first, at real and beyond the last position: none may be used as an address
  const Spec start = integers(kI32, {batch, sequence}, -3, 80), mask = integers(kU8, {batch, num_keys}, 0, 2),
             samples = dropout > 0 ? integers(kI64, {batch}, int64_t{1} << 33, 9) : absent();
  cases.push_back({"attention_forward",
                   {gradient, output(kF32, lse), absent(), operand, key, key, start, mask, absent(), absent(), absent(),
                    absent(), samples},
                   attributes,
                   dtypes});
  std::vector<double> of_backward = attributes;
  of_backward.push_back(0);  // accumulate
  const auto tensors_of = [&](const Spec& of_query, const Spec& of_key) -> std::vector<Spec> {
    return {of_query, of_key, of_key, operand, real(kF32, lse), integers(kF32, lse, 4, 2), operand, key, key, start, mask, absent(), absent(), absent(), absent(), samples};
  };
  cases.push_back({"attention_backward", tensors_of(gradient, key_gradient), of_backward, dtypes});
  of_backward.back() = 1;
  cases.push_back({"attention_backward", tensors_of(real(kF32, out), real(kF32, keys)), of_backward, dtypes});
}

// Adds cases of the output alone, over ranges of keys, as in evaluation and generation.
void add_output_alone(std::vector<Case>& cases, const AttentionSizes& of) {
  const auto [sequence, batch, heads, size, more_keys, window, first_key, soft_cap] = of;
  const std::vector<int64_t> out = {sequence, batch, heads, size};
  const Spec operand = real(kCompute, out), key = real(kCompute, {sequence + more_keys, batch, heads, size});
  cases.push_back({"attention_forward",
                   {output(kCompute, out), absent(), absent(), operand, key, key, absent(), absent(), absent(), absent(), absent(),
                    absent(), absent()},
                   {1, static_cast<double>(window), static_cast<double>(more_keys), static_cast<double>(first_key), 0, 0, 0, 0.3,
                    soft_cap, 0, 7, 8, 4}});
}

// Adds cases of two samples of slightly less than half of the rows; the other rows belong to no sample.
void add_packed_attention(std::vector<Case>& cases, const std::vector<int64_t>& out, double dropout,
                          const std::vector<DType>& dtypes, bool causal = false) {
  const int64_t rows = out[0], heads = out[1], length = rows == 2 ? 1 : rows / 2 - 2;
  const std::vector<int64_t> lse = {heads, rows};
  const std::vector<double> attributes = {causal ? 1.0 : 0.0, -1, 0, 0, static_cast<double>(length), 0, 2.0 * length * length,
                                          0.3, 0, dropout, 7, 8, 4};
  std::vector<double> of_backward = attributes;
  of_backward.push_back(0);  // accumulate
  const Spec operand = real(kCompute, out), gradient = output(kCompute, out), starts = steps(kI32, {3}, 0, length),
             samples = integers(kI64, {2}, int64_t{1} << 33, 9);
  cases.push_back({"attention_forward",
                   {gradient, output(kF32, lse), absent(), operand, operand, operand, absent(), absent(), starts, absent(), absent(),
                    absent(), samples},
                   attributes,
                   dtypes});
  cases.push_back({"attention_backward",
                   {gradient, gradient, gradient, operand, real(kF32, lse), integers(kF32, lse, 4, 2), operand, operand, operand,
                    absent(), absent(), starts, absent(), absent(), absent(), samples},
                   of_backward,
                   dtypes});
}

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  for (const int64_t sequence : {1, 67}) {
    for (const int64_t size : {5, 24}) add_attention(cases, {sequence, 2, 3, size}, 0.2, Case{}.dtypes);
  }
  for (const int64_t rows : {2, 70}) {
    for (const int64_t size : {5, 24}) add_packed_attention(cases, {rows, 3, size}, 0.2, Case{}.dtypes);
  }
  add_packed_attention(cases, {70, 3, 24}, 0.0, Case{}.dtypes, true);
  for (const int64_t sequence : {1, 67}) add_attention(cases, {sequence, 2, 3, 24, 70, 40}, 0.2, Case{}.dtypes);
  add_attention(cases, {67, 1, 2, 24}, 0.0, Case{}.dtypes);
  add_attention(cases, {67, 2, 3, 24, 20, -1, 47}, 0.2, Case{}.dtypes);
  for (const int64_t queries : {1, 5}) add_output_alone(cases, {queries, 1, 2, 24, 70});
  add_output_alone(cases, {67, 1, 2, 24});
  for (const int64_t queries : {1, 5}) add_output_alone(cases, {queries, 1, 2, 24, 70, -1, 73});
  const Spec merged = real(kF32, {67, 2, 3, 24}), statistics = real(kF32, {2, 3, 67});
  cases.push_back({"merge_attention", {merged, statistics, merged, statistics}, {}});
  const Spec attended = real(kCompute, {67, 2, 3, 24}), sinks = real(kCompute, {3}, 2.0);
  cases.push_back({"attention_sink_forward", {loose(attended), statistics, sinks}, {}});
  cases.push_back({"attention_sink_forward", {loose(real(kCompute, {67, 3, 5})), real(kF32, {3, 67}), sinks}, {}});
  cases.push_back({"attention_sink_backward", {real(kF32, {3}), statistics, statistics, sinks}, {}});
  for (const int64_t size : {5, 24, 83}) {
    const Spec summed = real(kCompute, {67, 2, 3, size}), packed = real(kCompute, {67, 3, size});
    cases.push_back({"attention_row_sums", {output(kF32, {2, 3, 67}), summed, summed}, {}});
    cases.push_back({"attention_row_sums", {output(kF32, {3, 67}), real(kF32, {67, 3, size}), packed}, {}});
  }
  for (const int64_t positions : {1, 5}) {
    const Spec cache = real(kCompute, {2, 3, 70, 19}), rows = real(kCompute, {positions, 2, 3, 19});
    cases.push_back({"append_to_cache", {cache, cache, rows, rows}, {65}});
  }
  return cases;
}

std::vector<Case> row_cases(int64_t width) {
  const std::vector<int64_t> rows = {3, 5, width}, column = {width}, per_row = {15};
  const Spec x = real(kCompute, rows), out = output(kCompute, rows), vector = real(kCompute, column),
             sums = real(kF32, column), ids = integers(kI32, {3, 5}, 0, 9), logits = real(kCompute, {15, width}, 3.0),
             labels = integers(kI32, per_row, 0, width + 2), statistic = real(kF32, per_row, -4.0);
  std::vector<Case> cases = {
      {"layer_norm_forward", {out, output(kF32, per_row), output(kF32, per_row), x, vector, vector}, {1e-5}},
      {"layer_norm_backward", {out, sums, sums, x, x, real(kF32, per_row), statistic, vector, x}, {}},
      {"embedding_forward", {out, ids, real(kCompute, {7, width})}, {1, 0, 9}},
      {"embedding_forward", {real(kCompute, rows), ids, real(kCompute, {7, width})}, {0, 1, 9}},
      {"embedding_backward", {real(kF32, {7, width}), x, ids}, {1, 9}},
      {"cross_entropy_rescale", {output(kF32, per_row), statistic, statistic, statistic}, {}, {kF32}},
      {"cross_entropy_statistics",
       {output(kF32, per_row), output(kF32, per_row), output(kF32, per_row), loose(logits), labels},
       {1, static_cast<double>(width > 1 ? width - 1 : 1), 0}},
      {"cross_entropy_backward",
       {output(kCompute, {15, width}), output(kF32, per_row), logits, labels, statistic, statistic, statistic,
        integers(kF32, per_row, 0, 3)},
       {0, static_cast<double>(width), static_cast<double>(width + 2), 1, 0, 0}},
      {"cross_entropy_forward_backward",
       {output(kCompute, {15, width}), output(kF32, per_row), output(kF32, per_row), output(kF32, per_row),
        output(kF32, per_row), logits, labels, integers(kF32, per_row, 0, 3)},
       {1, static_cast<double>(width > 1 ? width - 1 : 1), static_cast<double>(width + 2), std::nan(""), 0, 0}},
      {"linear_residual_forward", {out, x, real(kCompute, {3, 5, 7}), real(kCompute, {width, 7}), vector}, {}},
      {"linear_residual_forward", {out, x, real(kCompute, {3, 5, 7}), real(kCompute, {width, 7}), absent()}, {}},
      {"linear_weight_gradient",
       {real(kF32, {7, width}), real(kF32, {7}), real(kCompute, {3, 5, 7}), x}, {}},
      {"weighted_sum", {output(DType::kFloat64, {1}), statistic, statistic}, {}, {kF32}},
      {"sum_rows", {real(kF32, column), x}, {1}},
      {"sum_of_squares", {output(DType::kFloat64, {1}), loose(real(kF32, rows))}, {0}, {kF32}},
      {"cast", {out, x}, {}},
      {"scale", {out, x}, {0.5, 0}},
      {"scale", {real(kF32, rows), x}, {-1.5, 1}},
      {"add", {out, x, x}, {}},
      {"tanh_forward", {out, x}, {}},
      {"tanh_backward", {out, x, x}, {}},
      {"philox_normal", {loose(output(kCompute, {5, width}))}, {0.5, 2, 3, 4, static_cast<double>(width + 9), 2, 3}},
  };
  for (const double erf : {0.0, 1.0}) {
    cases.push_back({"linear_gelu_forward",
                     {out, out, real(kCompute, {3, 5, 7}), real(kCompute, {width, 7}), vector}, {erf}});
    cases.push_back({"linear_gelu_backward",
                     {out, real(kCompute, {3, 5, 7}), real(kCompute, {7, width}), x}, {erf}});
    cases.push_back({"bias_gelu_forward", {out, x, vector}, {erf}});
    cases.push_back({"bias_gelu_backward", {out, x, x, vector}, {erf}});
  }
  for (const double probability : {0.0, 0.3}) {
    const std::vector<double> attributes = {probability, 5, 6, probability == 0.0 ? 0.0 : 70.0};
    const Spec samples = integers(kI64, {5}, 100, 7);
    cases.push_back({"bias_dropout_residual_forward", {out, x, vector, x, samples, absent()}, attributes});
    cases.push_back({"bias_dropout_residual_backward", {out, x, samples, absent()}, attributes});
    const Spec of_rows = integers(kI64, {3, 5}, 100, 7), positions = integers(kI32, {3, 5}, 0, 9);
    cases.push_back({"bias_dropout_residual_forward", {out, x, vector, x, of_rows, positions}, attributes});
    cases.push_back({"bias_dropout_residual_backward", {out, x, of_rows, positions}, attributes});
  }
  return cases;
}

// Cases of RMSNorm, the activations of gated and other feed-forward networks, and the rotary embedding of
// heads of `width`.
std::vector<Case> llama_cases(int64_t width) {
  const std::vector<int64_t> rows = {3, 5, width}, twice = {3, 5, 2 * width}, column = {width}, per_row = {15};
  const Spec x = real(kCompute, rows), out = output(kCompute, rows), vector = real(kCompute, column),
             both = real(kCompute, twice), biases = real(kCompute, {2 * width});
  std::vector<Case> cases = {
      {"rms_norm_forward", {out, output(kF32, per_row), x, vector, absent()}, {1e-5, static_cast<double>(width)}},
      {"rms_norm_forward", {out, output(kF32, per_row), x, vector, real(kF32, per_row, -50.0)}, {1e-5, 2.0 * width}},
      {"rms_norm_backward",
       {out, real(kF32, column), x, x, real(kF32, per_row, -4.0), vector, x, absent()},
       {static_cast<double>(width)}},
      {"rms_norm_backward",
       {out, real(kF32, column), x, x, real(kF32, per_row, -4.0), vector, x, real(kF32, per_row)},
       {2.0 * width}},
      {"bias_swiglu_forward", {out, both, biases}, {}},
      {"bias_swiglu_backward", {output(kCompute, twice), x, both, biases}, {}},
      {"bias_squared_relu_forward", {out, x, vector}, {}},
      {"bias_squared_relu_backward", {out, x, x, vector}, {}},
  };
  for (const double interleaved : {0.0, 1.0}) {
    if (width < 2) continue;
    const Spec table = real(kF32, {9, width / 2 * 2});
    cases.push_back({"rotary_embedding", {out, x, integers(kI32, {3, 5}, 0, 9), table}, {interleaved, 1.0}});
    cases.push_back({"rotary_embedding", {out, x, integers(kI32, {3}, 4, 5), table}, {interleaved, 0.0}});
  }
  return cases;
}

// Cases of what device cuda refuses: soft caps of scores and logits, and highest scores.
std::vector<Case> cases_of_caps_and_highest_scores() {
  std::vector<Case> cases;
  add_attention(cases, {67, 2, 3, 24, 20, -1, 0, 0.5}, 0.2, Case{}.dtypes);
  add_attention(cases, {67, 2, 3, 24, 20, -1, 47}, 0.0, Case{}.dtypes);
  for (Case& one : cases) {
    if (std::strcmp(one.op, "attention_forward") == 0) one.tensors[2] = real(kF32, {3});
  }
  for (const int64_t queries : {1, 5}) add_output_alone(cases, {queries, 1, 2, 24, 70, -1, 0, 0.5});
  for (Case& one : row_cases(37)) {
    if (std::strncmp(one.op, "cross_entropy", 13) != 0 || one.attributes.empty()) continue;
    one.attributes.back() = 2.5;
    cases.push_back(one);
  }
  return cases;
}

// Returns cases of attention at a position that the kernel reads, which device cuda does not have.
std::vector<Case> cases_of_attention_cached() {
  std::vector<Case> cases;
  for (const int64_t positions : {1, 5}) {
    const Spec cache = real(kCompute, {2, 3, 70, 19}), rows = real(kCompute, {positions, 2, 3, 19});
    const Spec position = integers(kI32, {1}, 60, 6);
    for (const double window : {-1.0, 7.0}) {
      cases.push_back({"attention_cached", {output(kCompute, rows.shape), cache, cache, rows, rows, rows, position}, {window, 0.3, 0}});
    }
  }
  return cases;
}

// Returns cases of AdamW with states in chosen dtypes, which device cuda does not have. The segment ends
// beyond the buffer, because float16 moments behind the last segment must be zero.
std::vector<Case> cases_of_precision_aware_adamw() {
  std::vector<Case> cases;
  for (const int64_t size : {1, 33, 16400}) {
    const Spec scalars = real(kF32, {5}, -0.5), segments = integers(kI64, {1, 2}, 1000000, 1), scales = real(kF32, {1}, -1e-3);
    const std::vector<double> attributes = {0.9, 0.95, 1e-8, 0.1, 1};
    for (const DType gradient : {kF32, DType::kBFloat16}) {
      cases.push_back({"precision_aware_adamw",
                       {real(kF32, {size}), absent(), output(kCompute, {size}), real(DType::kBFloat16, {size}), absent(),
                        real(DType::kBFloat16, {size}, -1.0), absent(), real(gradient, {size}), scalars, segments},
                       attributes,
                       {DType::kBFloat16, DType::kFloat16}});
    }
    cases.push_back({"precision_aware_adamw",
                     {real(kF32, {size}), absent(), absent(), real(DType::kFloat16, {size}), scales,
                      real(DType::kFloat16, {size}, -1.0), scales, real(kF32, {size}), scalars, segments},
                     attributes,
                     {kF32}});
    cases.push_back({"split_remainder",
                     {output(DType::kBFloat16, {size}), output(kU8, {2 * size}), real(kF32, {size})},
                     {},
                     {kF32}});
    cases.push_back({"join_remainder",
                     {output(kF32, {size}), real(DType::kBFloat16, {size}), integers(kU8, {2 * size}, 0, 256)},
                     {},
                     {kF32}});
  }
  return cases;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases = attention_cases();
  for (const int64_t width : {1, 15, 37, 130, 192}) {
    for (Case& one : row_cases(width)) cases.push_back(one);
    for (Case& one : llama_cases(width)) cases.push_back(one);
    for (Case& one : expert_cases(width)) cases.push_back(one);
    for (Case& one : router_cases(width)) cases.push_back(one);
  }
  for (int flags = 0; flags < 8; ++flags) {
    const bool left = flags & 1, right = flags & 2;
    cases.push_back({"matmul",
                     {real(kCompute, {3, 5}), real(kCompute, left ? std::vector<int64_t>{7, 3} : std::vector<int64_t>{3, 7}),
                      real(kCompute, right ? std::vector<int64_t>{5, 7} : std::vector<int64_t>{7, 5}), real(kCompute, {5})},
                     {left ? 1.0 : 0.0, right ? 1.0 : 0.0, flags & 4 ? 1.0 : 0.0}});
  }
  cases.push_back({"matmul",
                   {real(kF32, {3, 5}), real(kCompute, {2, 4, 3}), real(kCompute, {2, 4, 5}), real(kCompute, {5})},
                   {1, 0, 1}});
  cases.push_back({"matmul",
                   {output(kCompute, {2, 3, 5}), real(kCompute, {2, 3, 7}), real(kCompute, {2, 7, 5}), real(kCompute, {5})},
                   {0, 0, 0}});
  cases.push_back({"adamw_scalars",
                   {output(kF32, {5}), output(DType::kFloat64, {1}), real(DType::kFloat64, {1}, -4.0)},
                   {1e-3, 0.1, 0.05, 2.0, 0.5},
                   {kF32}});
  for (const int64_t size : {1, 33, 16400}) {
    // segments that end before the buffer, inside and beyond it
    cases.push_back({"adamw",
                     {real(kF32, {size}), real(kF32, {size}), real(kF32, {size}, -1.0), output(kCompute, {size}),
                      real(kF32, {size}), real(kF32, {5}, -0.5), integers(kI64, {5, 2}, -4, 1000)},
                     {0.9, 0.95, 1e-8, 0.1, 1},
                     {DType::kBFloat16, DType::kFloat16}});
    cases.push_back({"muon_momentum", {real(kF32, {size}), real(kF32, {size}), real(kF32, {5})}, {0.95, 1}, {kF32}});
    cases.push_back({"muon_update",
                     {real(kF32, {size}), output(kCompute, {size}), real(kF32, {size}), real(kF32, {5})},
                     {0.1, 1},
                     {DType::kBFloat16, DType::kFloat16}});
  }
  cases.push_back({"muon_normalize",
                   {output(kCompute, {3, 37}), real(kF32, {3, 37}), real(DType::kFloat64, {1}, -4.0)},
                   {1e-7},
                   {kF32, DType::kBFloat16}});
  cases.push_back({"muon_polynomial",
                   {output(kCompute, {37, 37}), real(kCompute, {37, 37}), real(kF32, {37, 37})},
                   {3.4445, -4.775, 2.0315},
                   {kF32, DType::kBFloat16}});
  return cases;
}

// Cases that run each Hopper kernel at least once: the cases above are smaller. On a GPU rings of tiles wrap
// around; under emulation (where cuda_attention_test.cc covers that) a case costs CPU time.
std::vector<Case> cases_of_wide_heads() {
  std::vector<Case> cases;
  for (const int64_t sequence : is_gpu_under_test() ? std::vector<int64_t>{193, 641} : std::vector<int64_t>{33}) {
    for (const int64_t size : {64, 80, 96, 128, 192, 256}) {
      for (const double dropout : {0.0, 0.2}) {
        const std::vector<DType> dtypes = {DType::kBFloat16, DType::kFloat16};
        add_attention(cases, {sequence, 1, 1, size}, dropout, dtypes);
        // under emulation, cuda_packed_attention_test.cc compares more packed samples
        if (is_gpu_under_test() || size == 256) add_packed_attention(cases, {2 * sequence, 1, size}, dropout, dtypes);
      }
    }
  }
  return cases;
}

int op_number(const char* name) {
  for (int index = 0; index < num_ops(); ++index) {
    if (std::strcmp(op_at(index)->schema.name, name) == 0) return index;
  }
  return -1;
}

bool is_optional(const Case& one, size_t tensor) {
  const char* name = op_at(op_number(one.op))->schema.tensors[tensor];
  return name[std::strlen(name) - 1] == '?';
}

// A bit for each tensor of a case that may be left out.
uint32_t optional_of(const Case& one) {
  uint32_t optional = 0;
  for (size_t tensor = 0; tensor < one.tensors.size(); ++tensor) {
    const bool is_given = one.tensors[tensor].fill != Fill::kAbsent;
    if (is_given && is_optional(one, tensor)) optional |= 1u << tensor;
  }
  return optional;
}

struct Call {
  const Case& one;
  DType dtype;
  uint32_t left_out = 0;  // bit per tensor
  int64_t offset = 0;     // above 0: all tensors are views that begin this many elements into their storage
};

std::vector<OwnedTensor> make_tensors(const Call& call, DeviceKind device) {
  std::vector<OwnedTensor> tensors;
  for (size_t index = 0; index < call.one.tensors.size(); ++index) {
    const Spec& spec = call.one.tensors[index];
    if (call.left_out >> index & 1 || spec.fill == Fill::kAbsent) {
      tensors.emplace_back();
      continue;
    }
    const DType dtype = spec.dtype == kCompute ? call.dtype : spec.dtype;
    const int rank = static_cast<int>(spec.shape.size());
    tensors.push_back(call.offset > 0 ? OwnedTensor::offset_view(device, dtype, spec.shape.data(), rank, call.offset)
                                      : OwnedTensor(device, dtype, spec.shape.data(), rank));
    if (spec.fill == Fill::kReal) tensors.back().fill(static_cast<uint32_t>(index + 1), spec.scale);
    if (spec.fill == Fill::kIntegers) tensors.back().fill_integers(spec.first, spec.modulus);
    if (spec.fill == Fill::kSteps) tensors.back().fill_steps(spec.first, spec.modulus);
  }
  return tensors;
}

Status run_case(const Case& one, const std::vector<OwnedTensor>& tensors) {
  std::vector<TensorHandle> handles;
  for (const OwnedTensor& tensor : tensors) handles.push_back(tensor.handle());
  return run_op(op_number(one.op), handles.data(), static_cast<int>(handles.size()), one.attributes.data(),
                static_cast<int>(one.attributes.size()));
}

// A wrong element has an error of the element's size; rounding of intermediate values is far smaller than
// these bounds.
double tolerance_of(DType dtype) { return dtype == kF32 ? 1e-3 : 0.12; }

void expect_agreement(const Call& call, const std::vector<OwnedTensor>& actual, const std::vector<OwnedTensor>& expected) {
  const int num_outputs = op_at(op_number(call.one.op))->schema.num_outputs;
  for (int tensor = 0; tensor < num_outputs; ++tensor) {
    if (actual[static_cast<size_t>(tensor)].handle() == 0) continue;
    const std::vector<double> mine = actual[static_cast<size_t>(tensor)].values();
    const std::vector<double> right = expected[static_cast<size_t>(tensor)].values();
    for (size_t index = 0; index < mine.size(); ++index) {
      const double difference = std::fabs(mine[index] - right[index]);
      if (difference <= tolerance_of(call.dtype) * (1 + std::fabs(right[index]))) continue;
      std::printf("  %s dtype %d tensor %d [%zu]: %g, reference %g\n", call.one.op, static_cast<int>(call.dtype), tensor,
                  index, mine[index], right[index]);
      EXPECT(!"the kernel agrees with the reference");
      return;
    }
  }
}

// Runs a call on the reference and on a device: both must reject it, or both succeed with matching results.
void check(const Call& call, DeviceKind device = DeviceKind::kCpu) {
  const std::vector<OwnedTensor> expected = make_tensors(call, DeviceKind::kReference);
  const std::vector<OwnedTensor> actual = make_tensors(call, device);
  const Status right = run_case(call.one, expected);
  const Status mine = run_case(call.one, actual);
  EXPECT(right.ok() == mine.ok());
  EXPECT(call.left_out != 0 || succeeded(right));
  if (right.ok() && mine.ok()) expect_agreement(call, actual, expected);
  if (call.left_out != 0) discard(right);
  discard(mine);
}

template <typename Body>
void for_each_instruction_set(const Body& body) {
  for (const InstructionSet& set : instruction_sets()) {
    if (!set.is_usable()) continue;
    EXPECT(succeeded(set_instruction_set(set.name)));
    body();
  }
}

std::vector<Case> cases_on_cpu() {
  std::vector<Case> cases = all_cases();
  for (Case& one : cases_of_caps_and_highest_scores()) cases.push_back(one);
  for (Case& one : cases_of_precision_aware_adamw()) cases.push_back(one);
  for (Case& one : cases_of_attention_cached()) cases.push_back(one);
  return cases;
}

MTL_TEST(every_operation_has_a_native_case) {
  std::set<std::string> covered;
  for (const Case& one : cases_on_cpu()) covered.insert(one.op);
  for (int index = 0; index < num_ops(); ++index) {
    EXPECT(covered.count(op_at(index)->schema.name) == 1 || (std::printf("  %s\n", op_at(index)->schema.name), false));
  }
}

MTL_TEST(kernels_agree_with_the_reference_at_odd_sizes_and_offsets) {
  for_each_instruction_set([] {
    for (const Case& one : cases_on_cpu()) {
      for (const DType dtype : one.dtypes) {
        check({one, dtype});
        check({one, dtype, 0, 3});
      }
    }
  });
}

MTL_TEST(every_subset_of_optional_tensors_works_or_is_refused) {
  for_each_instruction_set([] {
    for (const Case& one : cases_on_cpu()) {
      const uint32_t optional = optional_of(one);
      for (uint32_t subset = optional; subset != 0; subset = (subset - 1) & optional) check({one, one.dtypes[0], subset});
    }
  });
}

// Cases of the operations whose clamps, maxima and reciprocals could turn a NaN into a number.
std::vector<Case> cases_of_not_a_number() {
  std::vector<Case> cases;
  const Spec rows = real(kCompute, {70, 1, 2, 24}), out = output(kCompute, {70, 1, 2, 24});
  for (const Spec& statistics : {output(kF32, {1, 2, 70}), absent()}) {
    cases.push_back({"attention_forward",
                     {out, statistics, absent(), rows, rows, rows, absent(), absent(), absent(), absent(), absent(), absent(),
                      absent()},
                     {0, -1, 0, 0, 0, 0, 0, 0.3, 0, 0, 0, 0, 0}});
  }
  for (Case& one : llama_cases(37)) {
    if (std::strcmp(one.op, "rotary_embedding") != 0) cases.push_back(one);
  }
  return cases;
}

// Expects that a NaN in an operand reaches the same elements of the outputs on a device as on the reference,
// and at least one.
void check_not_a_number(const Case& one, DType dtype, DeviceKind device) {
  const int num_outputs = op_at(op_number(one.op))->schema.num_outputs;
  for (size_t operand = static_cast<size_t>(num_outputs); operand < one.tensors.size(); ++operand) {
    if (one.tensors[operand].fill == Fill::kAbsent) continue;
    for (const int64_t at : {3, 36}) {  // in a whole vector and in the rest of a row
      std::vector<std::vector<OwnedTensor>> calls;
      for (const DeviceKind each : {DeviceKind::kReference, device}) {
        calls.push_back(make_tensors({one, dtype}, each));
        const OwnedTensor& tensor = calls.back()[operand];
        tensor.set(at < tensor.view().size() ? at : 0, std::nan(""));
        EXPECT(succeeded(run_case(one, calls.back())));
      }
      int64_t num_found = 0;
      for (size_t output = 0; output < static_cast<size_t>(num_outputs); ++output) {
        if (calls[0][output].handle() == 0) continue;
        const std::vector<double> right = calls[0][output].values(), mine = calls[1][output].values();
        for (size_t index = 0; index < right.size(); ++index) {
          num_found += std::isnan(right[index]) ? 1 : 0;
          if (std::isnan(right[index]) == std::isnan(mine[index])) continue;
          std::printf("  %s dtype %d NaN in tensor %zu: tensor %zu [%zu] is %g, reference %g\n", one.op,
                      static_cast<int>(dtype), operand, output, index, mine[index], right[index]);
          EXPECT(!"a NaN reaches the same elements");
          return;
        }
      }
      EXPECT(num_found > 0 || (std::printf("  %s tensor %zu\n", one.op, operand), false));
    }
  }
}

MTL_TEST(not_a_number_reaches_the_outputs_as_on_the_reference) {
  for_each_instruction_set([] {
    for (const Case& one : cases_of_not_a_number()) {
      for (const DType dtype : one.dtypes) check_not_a_number(one, dtype, DeviceKind::kCpu);
    }
  });
}

using Order = emulation::Order;

// Runs the body of a test of device cuda: on the GPU whose library MTL_CUDA_LIBRARY names, else under
// emulation with the threads of a block in these orders. Checks that do not depend on the order run in the
// last one only, as on a GPU.
template <typename Body>
void on_cuda(std::initializer_list<Order> orders, const Body& body) {
  if (!open_cuda_for_tests()) return;
  if (is_gpu_under_test()) return body(Order::kShuffled);
  for (const Order order : orders) {
    emulation::set_order(order, 1);
    body(order);
  }
  emulation::set_order(Order::kAscending);
}

// `npm run dev -- test:cuda --emulation` runs the ascending order.
constexpr auto kOtherOrders = {Order::kDescending, Order::kShuffled};

bool is_on_cuda(const Case& one) {
  return backend_of(DeviceKind::kCuda)->find_kernel(one.op) != nullptr;
}

MTL_TEST(cuda_kernels_agree_with_the_reference_at_odd_sizes_and_offsets) {
  on_cuda(kOtherOrders, [](Order order) {
    for (const Case& one : all_cases()) {
      if (!is_on_cuda(one)) continue;
      for (const DType dtype : one.dtypes) {
        check({one, dtype}, DeviceKind::kCuda);
        if (order == Order::kShuffled) check({one, dtype, 0, 3}, DeviceKind::kCuda);
      }
    }
  });
}

MTL_TEST(not_a_number_reaches_the_outputs_on_cuda_as_on_the_reference) {
  if (!open_cuda_for_tests()) return;
  for (const Case& one : cases_of_not_a_number()) {
    for (const DType dtype : one.dtypes) check_not_a_number(one, dtype, DeviceKind::kCuda);
  }
}

// A grid has at most 65,535 blocks in y: all rows of caches are in x.
MTL_TEST(cuda_appends_to_caches_of_more_groups_than_a_grid_is_high) {
  if (!open_cuda_for_tests()) return;
  const Spec cache = real(kCompute, {1 << 12, 17, 1, 1}), rows = real(kCompute, {1, 1 << 12, 17, 1});
  check({Case{"append_to_cache", {cache, cache, rows, rows}, {0}}, kF32}, DeviceKind::kCuda);
}

// In attention, the height of a grid is the number of heads of all samples. Too many heads are refused on
// cuda, and on device meta-cuda, which counts for cuda.
MTL_TEST(more_heads_than_a_grid_is_high_are_refused_on_cuda_alone) {
  if (!open_cuda_for_tests()) return;
  std::vector<Case> cases;
  add_attention(cases, {1, 1 << 12, 16, 1}, 0.0, {kF32});
  for (const Case& one : cases) {
    check({one, kF32});
    Status refused[2];
    const DeviceKind devices[] = {DeviceKind::kCuda, DeviceKind::kMetaCuda};
    for (int i = 0; i < 2; ++i) refused[i] = run_case(one, make_tensors({one, kF32}, devices[i]));
    for (const Status& status : refused) {
      EXPECT(!status.ok() && std::strstr(status.message, "4096 samples of 16 heads on device cuda, expected 65535") != nullptr);
      EXPECT(!status.ok() && std::strstr(status.message, "use fewer samples at a time") != nullptr);
      EXPECT(failed_with(status, "MTL_UNSUPPORTED"));
    }
  }
}

MTL_TEST(cuda_kernels_of_wide_heads_agree_with_the_reference) {
  on_cuda(kOtherOrders, [](Order) {
    for (const Case& one : cases_of_wide_heads()) {
      for (const DType dtype : one.dtypes) {
        check({one, dtype}, DeviceKind::kCuda);
        EXPECT(!is_linked_emulation_under_test() || std::strstr(emulation::last_kernel(), "hopper") != nullptr);
      }
    }
  });
}

// Expects the same bits when a call runs twice on the same values.
void expect_the_same_bits(const Case& one, DType dtype) {
  const std::vector<OwnedTensor> first = make_tensors({one, dtype}, DeviceKind::kCuda);
  const std::vector<OwnedTensor> second = make_tensors({one, dtype}, DeviceKind::kCuda);
  EXPECT(succeeded(run_case(one, first)));
  emulation::set_order(Order::kShuffled, 2);
  EXPECT(succeeded(run_case(one, second)));
  emulation::set_order(Order::kAscending);
  for (int tensor = 0; tensor < op_at(op_number(one.op))->schema.num_outputs; ++tensor) {
    const auto at = static_cast<size_t>(tensor);
    if (first[at].handle() == 0) continue;
    const std::vector<double> left = first[at].values(), right = second[at].values();
    EXPECT(std::memcmp(left.data(), right.data(), left.size() * sizeof(double)) == 0);
  }
}

// Selects kernels of attention while it exists.
class ChosenAttention {
 public:
  explicit ChosenAttention(const char* kernels) { setenv(kVariable, kernels, 1); }
  ~ChosenAttention() { unsetenv(kVariable); }
  // Tells whether the run has chosen kernels, because other kernels hang on its GPU
  // (tooling/cuda/stages.mjs).
  static bool is_left_to_the_run() { return std::getenv(kVariable) != nullptr; }

 private:
  static constexpr const char* kVariable = "MTL_CUDA_ATTENTION";
};

// Cases with enough work for every multiprocessor of a GPU several times: blocks of the forward pass compute
// many tiles of queries.
std::vector<Case> cases_of_many_tiles() {
  const bool is_gpu = is_gpu_under_test();
  const int64_t sequence = is_gpu ? 1000 : 150, batch = is_gpu ? 4 : 1, heads = is_gpu ? 16 : 2;
  std::vector<Case> cases;
  for (const int64_t size : is_gpu ? std::vector<int64_t>{64, 128, 192, 256} : std::vector<int64_t>{64}) {
    add_attention(cases, {sequence, batch, heads, size}, 0.0, {DType::kBFloat16});
    add_packed_attention(cases, {2 * sequence, batch * heads, size}, 0.0, {DType::kBFloat16});
  }
  return cases;
}

MTL_TEST(cuda_kernels_of_many_tiles_agree_with_those_of_any_gpu) {
  if (!open_cuda_for_tests() || ChosenAttention::is_left_to_the_run()) return;
  for (const Case& one : cases_of_many_tiles()) {
    const Call call = {one, one.dtypes[0]};
    const std::vector<OwnedTensor> expected = make_tensors(call, DeviceKind::kCuda);
    {
      const ChosenAttention chosen("mma.sync");
      EXPECT(succeeded(run_case(one, expected)));
    }
    const std::vector<OwnedTensor> actual = make_tensors(call, DeviceKind::kCuda);
    EXPECT(succeeded(run_case(one, actual)));
    expect_agreement(call, actual, expected);
    for (int time = 0; time < (is_gpu_under_test() ? 10 : 1); ++time) expect_the_same_bits(one, call.dtype);
  }
}

MTL_TEST(cuda_kernels_take_every_subset_of_optional_tensors) {
  on_cuda({Order::kShuffled}, [](Order) {
    for (const Case& one : all_cases()) {
      if (!is_on_cuda(one)) continue;
      const uint32_t optional = optional_of(one);
      for (uint32_t subset = optional; subset != 0; subset = (subset - 1) & optional) {
        check({one, one.dtypes[0], subset}, DeviceKind::kCuda);
      }
    }
  });
}

MTL_TEST(cuda_kernels_give_the_same_bits_every_time) {
  if (!open_cuda_for_tests()) return;
  std::vector<Case> cases = all_cases();
  // under emulation, cuda_attention_test.cc compares the cases of wide heads
  if (is_gpu_under_test()) {
    for (Case& one : cases_of_wide_heads()) cases.push_back(one);
  }
  for (const Case& one : cases) {
    if (!is_on_cuda(one)) continue;
    for (const DType dtype : one.dtypes) expect_the_same_bits(one, dtype);
  }
}

MTL_TEST(required_tensors_are_required) {
  for (const Case& one : all_cases()) {
    for (size_t tensor = 0; tensor < one.tensors.size(); ++tensor) {
      if (is_optional(one, tensor)) continue;
      const std::vector<OwnedTensor> tensors = make_tensors({one, one.dtypes[0], 1u << tensor}, DeviceKind::kCpu);
      EXPECT(failed_with(run_case(one, tensors), "MTL_ARGUMENT"));
    }
  }
}

// Makes one tensor at a time too wide, too long, of another rank or dtype. Calls that the contract accepts
// must give matching results.
MTL_TEST(tensors_that_do_not_fit_are_refused_on_both_devices) {
  for (const Case& original : all_cases()) {
    for (size_t tensor = 0; tensor < original.tensors.size(); ++tensor) {
      for (int change = 0; change < 4; ++change) {
        Case one = original;
        Spec& spec = one.tensors[tensor];
        if (spec.fill == Fill::kAbsent) continue;
        if (change == 0) spec.shape.back() += 1;
        if (change == 1) spec.shape.front() += 1;
        if (change == 2) spec.shape.insert(spec.shape.begin(), 2);
        if (change == 3) spec.dtype = spec.dtype == kI32 ? kI64 : kI32;
        const Call call = {one, one.dtypes[0]};
        const std::vector<OwnedTensor> expected = make_tensors(call, DeviceKind::kReference);
        const std::vector<OwnedTensor> actual = make_tensors(call, DeviceKind::kCpu);
        const Status right = run_case(one, expected);
        const Status mine = run_case(one, actual);
        EXPECT(right.ok() == mine.ok());
        const bool must_fail = change == 3 || (change == 0 && !spec.any_width);
        if (must_fail && mine.ok()) std::printf("  %s: change %d of tensor %zu was let pass\n", one.op, change, tensor);
        EXPECT(!must_fail || !mine.ok());
        discard(right);
        discard(mine);
      }
    }
  }
}

MTL_TEST(no_elements_are_computed_or_refused_alike) {
  for (const Case& original : all_cases()) {
    Case one = original;
    for (Spec& spec : one.tensors) {
      if (spec.shape.size() > 1) spec.shape.front() = 0;
    }
    const Call call = {one, one.dtypes[0]};
    const Status right = run_case(one, make_tensors(call, DeviceKind::kReference));
    const Status mine = run_case(one, make_tensors(call, DeviceKind::kCpu));
    if (right.ok() != mine.ok()) std::printf("  %s: reference %d, cpu %s\n", one.op, right.ok(), mine.ok() ? "ok" : mine.message);
    EXPECT(right.ok() == mine.ok());
    discard(right);
    discard(mine);
  }
}

// Descending segment ends break the contract, which the CPU kernel cannot afford to check: any result, but no
// out-of-bounds access and no endless loop.
MTL_TEST(adamw_survives_segments_in_disorder) {
  for (const int64_t modulus : {29, 5000}) {
    Case one = {"adamw",
                {real(kF32, {16400}), real(kF32, {16400}), real(kF32, {16400}, -1.0), output(kCompute, {16400}),
                 real(kF32, {16400}), real(kF32, {5}, -0.5), integers(kI64, {700, 2}, -2000, modulus)},
                {0.9, 0.95, 1e-8, 0.1, 1}};
    for_each_instruction_set([&] {
      EXPECT(succeeded(run_case(one, make_tensors({one, DType::kBFloat16}, DeviceKind::kCpu))));
    });
  }
}

MTL_TEST(calls_that_are_no_calls_are_refused) {
  const int64_t shape[] = {2, 2};
  const OwnedTensor cpu(DeviceKind::kCpu, kF32, shape, 2), reference(DeviceKind::kReference, kF32, shape, 2);
  TensorHandle stale = 0;
  EXPECT(succeeded(create_tensor(DeviceKind::kCpu, kF32, shape, 2, &stale)));
  EXPECT(succeeded(release_tensor(stale)));
  const int add = op_number("add");
  const TensorHandle good[] = {cpu.handle(), cpu.handle(), cpu.handle()};
  const TensorHandle mixed[] = {cpu.handle(), reference.handle(), cpu.handle()};
  const TensorHandle dead[] = {cpu.handle(), stale, cpu.handle()};
  const TensorHandle unknown[] = {~TensorHandle{0}, cpu.handle(), cpu.handle()};
  EXPECT(succeeded(run_op(add, good, 3, nullptr, 0)));
  EXPECT(failed_with(run_op(add, mixed, 3, nullptr, 0), "MTL_DEVICE"));
  EXPECT(failed_with(run_op(add, dead, 3, nullptr, 0), "MTL_DISPOSED_TENSOR"));
  EXPECT(failed_with(run_op(add, unknown, 3, nullptr, 0), "MTL_DISPOSED_TENSOR"));
  EXPECT(failed_with(run_op(add, good, 2, nullptr, 0), "MTL_ARGUMENT"));
  const double attribute = 1;
  EXPECT(failed_with(run_op(add, good, 3, &attribute, 1), "MTL_ARGUMENT"));
  EXPECT(failed_with(run_op(-1, good, 3, nullptr, 0), "MTL_ARGUMENT"));
  EXPECT(failed_with(run_op(num_ops(), good, 3, nullptr, 0), "MTL_ARGUMENT"));
}

}  // namespace
}  // namespace mtl::tests

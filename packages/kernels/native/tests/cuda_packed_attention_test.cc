// The CUDA attention kernels on packed samples, run under emulation: compared with the reference device, and
// each sample bit by bit with the same sample alone.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/attention/attention.h"
#include "tests/attention_call.h"
#include "tests/cuda_kernel_test.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

using emulation::Order;

struct Case {
  std::vector<int64_t> lengths;
  int64_t heads, head_size;
  double dropout = 0.0;
  int64_t rest = 0;  // rows that belong to no sample
  int64_t members = 1;  // heads that share a key and a value
  bool causal = false;
  int64_t window = -1;

  int64_t rows() const {
    int64_t sum = rest;
    for (const int64_t length : lengths) sum += length;
    return sum;
  }
  int64_t num_scores() const {
    int64_t sum = 0;
    for (const int64_t length : lengths) sum += length * length;
    return sum;
  }
  int64_t longest() const { return *std::max_element(lengths.begin(), lengths.end()); }
  // The length that recorded passes are launched with: longer than any sample.
  int64_t bound() const { return std::min(rows(), longest() + 130); }
  int64_t batch() const { return static_cast<int64_t>(lengths.size()); }
  std::vector<int64_t> projection() const { return {rows(), heads / members, members + 2, head_size}; }
  int64_t columns() const { return heads / members * (members + 2) * head_size; }  // of the projection
};

struct Tensors {
  HostTensor qkv, output, log_sum_exp, output_gradient, qkv_gradient, row_sums, starts, samples;

  // `dtype` is the dtype of the inputs, `results` the dtype of the results.
  Tensors(const Case& one, DType dtype, DType results)
      : qkv(dtype, one.projection()),
        output(results, {one.rows(), one.heads, one.head_size}),
        log_sum_exp(DType::kFloat32, {one.heads, one.rows()}),
        output_gradient(dtype, {one.rows(), one.heads, one.head_size}),
        qkv_gradient(results, one.projection()),
        row_sums(DType::kFloat32, {one.heads, one.rows()}),
        starts(DType::kInt32, {one.batch() + 1}),
        samples(DType::kInt64, {one.batch()}) {
    qkv.fill(1, 1.5);
    output_gradient.fill(2, 1.0);
    int64_t start = 0;
    for (int64_t b = 0; b < one.batch(); ++b) {
      starts.set(b, static_cast<double>(start));
      start += one.lengths[b];
      samples.set(b, static_cast<double>((int64_t{1} << 33) + 5 * b));
    }
    starts.set(one.batch(), static_cast<double>(start));
  }
};

// Returns a call on the tensors' rows from `first_row` on.
AttentionCall call_of(const Case& one, const Tensors& tensors, int64_t first_row = 0) {
  using Op = AttentionBackward;
  const auto rows_of = [&](const HostTensor& tensor) {
    TensorView view = tensor.view();
    view.data = static_cast<unsigned char*>(view.data) + static_cast<size_t>(first_row * view.stride(0)) * size_of(view.dtype);
    return view;
  };
  AttentionCall call = plain_attention_call(1.0 / std::sqrt(static_cast<double>(one.head_size)));
  call.set_projections(rows_of(tensors.qkv), rows_of(tensors.qkv_gradient));
  call.output = rows_of(tensors.output);
  call[Op::kRowSums] = tensors.row_sums.view();
  call[Op::kOutputGradient] = rows_of(tensors.output_gradient);
  call[Op::kLogSumExp] = tensors.log_sum_exp.view();
  call[Op::kStarts] = tensors.starts.view();
  if (one.dropout > 0) call[Op::kSamples] = tensors.samples.view();
  call[Op::kCausal] = one.causal ? 1 : 0;
  call[Op::kWindowSize] = static_cast<double>(one.window);
  call[Op::kDropoutProbability] = one.dropout;
  call[Op::kKeyLow] = 7, call[Op::kKeyHigh] = 0x80000001u, call[Op::kHeadOffset] = 4;
  call[Op::kLongest] = static_cast<double>(one.bound());
  call[Op::kNumScores] = static_cast<double>(one.num_scores());
  return call;
}

Tensors reference_of(const Case& one, DType dtype) {
  Tensors tensors(one, dtype, DType::kFloat32);
  call_of(one, tensors).run_on_reference();
  return tensors;
}

// Runs the forward and the backward kernels, which are Hopper's unless the problem has a window: the kernels
// for tensor cores do not support windows of packed samples. `sum_rows` computes problem.row_sums from the
// output.
template <typename SumRows>
void run_kernels(const AttentionProblem& problem, const SumRows& sum_rows) {
  const bool is_for_hopper = problem.window == kNoWindow;
  EXPECT(ran(cuda::attention_forward({problem, nullptr})));
  EXPECT((std::strstr(emulation::last_kernel(), "hopper") != nullptr) == is_for_hopper);
  sum_rows();
  EXPECT(ran(cuda::attention_backward({problem, nullptr})));
  EXPECT((std::strstr(emulation::last_kernel(), "hopper") != nullptr) == is_for_hopper);
}

Tensors results_of(const Case& one, DType dtype, Order order) {
  emulation::set_order(order, 11);
  Tensors tensors(one, dtype, dtype);
  // only the op, not a kernel, writes the rows that belong to no sample
  for (int64_t row = one.rows() - one.rest; row < one.rows(); ++row) {
    const int64_t columns = one.heads * one.head_size;
    for (int64_t i = 0; i < columns; ++i) tensors.output.set(row * columns + i, 0.0);
    for (int64_t i = 0; i < one.columns(); ++i) tensors.qkv_gradient.set(row * one.columns() + i, 0.0);
    for (int64_t head = 0; head < one.heads; ++head) tensors.log_sum_exp.set(head * one.rows() + row, kEmptyLogSumExp);
  }
  const AttentionCall call = call_of(one, tensors);
  run_kernels(call.problem(), [&] { call.sum_rows(); });
  emulation::set_order(Order::kAscending);
  EXPECT(tensors.output.guards_stand() && tensors.log_sum_exp.guards_stand() && tensors.qkv_gradient.guards_stand());
  return tensors;
}

void check(const Case& one, DType dtype) {
  const Tensors expected = reference_of(one, dtype), actual = results_of(one, dtype, Order::kDescending);
  char text[80];
  std::snprintf(text, sizeof text, "packed, %lld of %lld rows, width %lld %s", static_cast<long long>(one.longest()),
                static_cast<long long>(one.rows()), static_cast<long long>(one.head_size), name_of(dtype));
  const std::string name = text;
  // as in cuda_attention_test.cc
  const double tolerance = dtype == DType::kBFloat16 ? 8e-3 : 1e-3;
  EXPECT(rows_agree((name + " output").c_str(), actual.output, expected.output, one.head_size, tolerance));
  EXPECT(rows_agree((name + " logSumExp").c_str(), actual.log_sum_exp, expected.log_sum_exp, 1, 2e-6));
  EXPECT(rows_agree((name + " gradient").c_str(), actual.qkv_gradient, expected.qkv_gradient, one.head_size, 2 * tolerance));
}

// Rows of a sample are stored like the rows of a batch of one. Then zeros follow them instead of the next
// sample's rows, which must not change a bit.
void check_alone(const Case& one, DType dtype) {
  const Tensors packed = results_of(one, dtype, Order::kShuffled);
  Tensors alone(one, dtype, dtype);
  std::vector<float> log_sum_exp(one.heads * one.longest()), row_sums(log_sum_exp.size());
  int64_t start = 0;
  for (int64_t b = 0; b < one.batch(); start += one.lengths[b++]) {
    const int64_t length = one.lengths[b], columns = one.heads * one.head_size;
    if (length == 0) continue;
    const AttentionCall call = call_of(one, alone, start);
    AttentionProblem problem = call.problem();
    problem.starts = problem.query_starts = nullptr;
    problem.num_queries = problem.num_keys = length;
    problem.batch = 1;
    problem.log_sum_exp = log_sum_exp.data();
    if (problem.samples != nullptr) problem.samples += b;
    problem.row_sums = row_sums.data();
    run_kernels(problem, [&] {
      TensorView sums = call[AttentionBackward::kRowSums], output = call.output, gradient = call[AttentionBackward::kOutputGradient];
      sums.data = row_sums.data();
      sums.shape[1] = output.shape[0] = gradient.shape[0] = length;
      run_reference("attention_row_sums", {sums, output, gradient}, call.attributes);
    });
    const auto same_rows = [&](const HostTensor& left, const HostTensor& right, int64_t of_row) {
      return std::memcmp(left.data<uint16_t>() + start * of_row, right.data<uint16_t>() + start * of_row, 2 * length * of_row) == 0;
    };
    EXPECT(same_rows(packed.output, alone.output, columns));
    EXPECT(same_rows(packed.qkv_gradient, alone.qkv_gradient, one.columns()));
    for (int64_t head = 0; head < one.heads; ++head) {
      EXPECT(std::equal(&log_sum_exp[head * length], &log_sum_exp[head * length] + length,
                        packed.log_sum_exp.data<const float>() + head * one.rows() + start));
    }
  }
}

}  // namespace

// Samples of one row, of none, of whole tiles and of parts of one; the op cases have many tiles. The scores
// of a single row have gradients of exactly 0: a difference that consists only of the output's rounding. That
// is tested below, and not here in wide heads, where more terms are summed than the tolerance allows for.
MTL_TEST(cuda_packed_attention_agrees_on_hopper) {
  check({{1, 130, 0, 65, 64}, 2, 64}, DType::kBFloat16);
  check({{130, 3}, 1, 80, 0.2}, DType::kFloat16);
  check({{66, 129}, 1, 96, 0.0, 7}, DType::kFloat16);
  check({{2, 100}, 1, 200, 0.1}, DType::kFloat16);
  check({{66, 0, 70}, 4, 64, 0.1, 3, 2}, DType::kBFloat16);
  check({{66, 0, 170}, 2, 64, 0.0, 3, 2, true}, DType::kBFloat16);
  check({{200, 1, 70}, 2, 128, 0.1, 0, 1, true, 40}, DType::kFloat16);
}

MTL_TEST(cuda_packed_attention_is_that_of_each_sample_alone) {
  check_alone({{3, 100, 0, 64, 1}, 2, 72, 0.2, 5}, DType::kBFloat16);
  check_alone({{5, 130}, 1, 128}, DType::kFloat16);
  check_alone({{65, 0, 1, 70}, 1, 192, 0.1}, DType::kBFloat16);
  check_alone({{65, 1, 70}, 4, 64, 0.1, 0, 4}, DType::kFloat16);
}

}  // namespace mtl::tests

// packed_attention_forward, packed_attention_backward: attention over samples that lie one after the other without
// padding: a position sees all positions of its own sample.
//
//   T rows, A heads (of this process), D head size, N samples
//   output, outputGradient  [T, A, D]       qkv, qkvGradient  [T, A, 3, D]
//   logSumExp  [A, T] float32 (float64 with float64 inputs), as in attention.cc
//   starts  [N + 1] int32: sample n has the rows starts[n] to starts[n + 1]; rows from starts[N] on are nobody's: output
//   and gradient are 0 there
//   samples?  [N] int64: global sample numbers; needed with dropout
//   longest: no sample has more rows. numScores: the sum of the squares of all lengths, for counting FLOPs.
//   Dropout as in attention.cc, row and column of the mask being positions within the sample: it drops what it drops of
//   the same samples with padding.
#include <cmath>

#include "core/validation.h"
#include "ops/attention.h"

namespace mtl {
namespace {

enum { kScale, kDropoutProbability, kKeyLow, kKeyHigh, kHeadOffset, kLongest, kNumScores };
constexpr int64_t kMaxHeads = 65536;  // the head's share of a Philox counter

bool is_integer_below(double value, double limit) { return value >= 0 && value < limit && value == std::floor(value); }

Status validate_attributes(const OpCall& call, int qkv) {
  const double scale = call.attribute(kScale), probability = call.attribute(kDropoutProbability);
  if (!(scale > 0 && std::isfinite(scale))) {
    return argument_error(call, "scale is %g, expected a finite number above 0", scale);
  }
  if (!(probability >= 0 && probability < 1)) {
    return argument_error(call, "dropoutProbability is %g, expected 0 or more and below 1", probability);
  }
  if (probability > 0 && !call.has(qkv + kPackedSamples)) {
    return argument_error(call, "dropoutProbability is %g, which needs samples, the global sample numbers", probability);
  }
  for (const int half : {kKeyLow, kKeyHigh}) {
    if (is_integer_below(call.attribute(half), 4294967296.0)) continue;
    return argument_error(call, "keyLow and keyHigh are %g and %g, expected integers from 0 to 2^32 - 1",
                          call.attribute(kKeyLow), call.attribute(kKeyHigh));
  }
  const TensorView& tensor = call.tensor(qkv);
  if (!is_integer_below(call.attribute(kHeadOffset), static_cast<double>(kMaxHeads - tensor.dim(1) + 1))) {
    return argument_error(call, "headOffset is %g with %lld heads, expected an integer and at most %lld heads in all",
                          call.attribute(kHeadOffset), static_cast<long long>(tensor.dim(1)),
                          static_cast<long long>(kMaxHeads));
  }
  if (!is_integer_below(call.attribute(kLongest), static_cast<double>(tensor.dim(0) + 1))) {
    return argument_error(call, "longest is %g, expected an integer from 0 to the %lld rows", call.attribute(kLongest),
                          static_cast<long long>(tensor.dim(0)));
  }
  return ok_status();
}

// Everything but the outputs and gradients.
Status validate_inputs(const OpCall& call, int qkv, int log_sum_exp) {
  MTL_RETURN_IF_ERROR(expect_floating(call, qkv));
  MTL_RETURN_IF_ERROR(expect_rank(call, qkv, 4, 4));
  const TensorView& tensor = call.tensor(qkv);
  const int64_t rows = tensor.dim(0), heads = tensor.dim(1);
  MTL_RETURN_IF_ERROR(expect_shape(call, qkv, {rows, heads, 3, tensor.dim(3)}));
  if (tensor.dim(3) < 1) return argument_error(call, "the head size is 0");
  MTL_RETURN_IF_ERROR(expect_shape(call, log_sum_exp, {heads, rows}));
  MTL_RETURN_IF_ERROR(
      expect_dtype(call, log_sum_exp, {tensor.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32}));
  const int starts = qkv + kPackedStarts, samples = qkv + kPackedSamples;
  MTL_RETURN_IF_ERROR(expect_rank(call, starts, 1, 1));
  MTL_RETURN_IF_ERROR(expect_dtype(call, starts, {DType::kInt32}));
  if (call.tensor(starts).size() < 1) return argument_error(call, "starts is empty, expected one more than samples");
  if (call.has(samples)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, samples, {call.tensor(starts).size() - 1}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, samples, {DType::kInt64}));
  }
  return validate_attributes(call, qkv);
}

// The tensor is [T, A, D] of qkv's dtype.
Status expect_output(const OpCall& call, int output, int qkv) {
  const TensorView& tensor = call.tensor(qkv);
  MTL_RETURN_IF_ERROR(expect_shape(call, output, {tensor.dim(0), tensor.dim(1), tensor.dim(3)}));
  return expect_dtype(call, output, {tensor.dtype});
}

Status validate_forward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(validate_inputs(call, kAttentionQkv, kAttentionLogSumExp));
  return expect_output(call, kAttentionOutput, kAttentionQkv);
}

Status validate_backward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(validate_inputs(call, kAttentionBackwardQkv, kAttentionBackwardLogSumExp));
  MTL_RETURN_IF_ERROR(expect_output(call, kAttentionOutputGradient, kAttentionBackwardQkv));
  MTL_RETURN_IF_ERROR(expect_output(call, kAttentionBackwardOutput, kAttentionBackwardQkv));
  return expect_like(call, kAttentionQkvGradient, kAttentionBackwardQkv);
}

// One product for all heads of queries and keys, or of probabilities and values.
double product_flops(const OpCall& call, int qkv) {
  const TensorView& tensor = call.tensor(qkv);
  return 2.0 * static_cast<double>(tensor.dim(1) * tensor.dim(3)) * call.attribute(kNumScores);
}

double forward_flops(const OpCall& call) { return 2 * product_flops(call, kAttentionQkv); }
double backward_flops(const OpCall& call) { return 4 * product_flops(call, kAttentionBackwardQkv); }

MTL_REGISTER_OP(OpSchema{"packed_attention_forward",
                         2,
                         {"output", "logSumExp", "qkv", "starts", "samples?"},
                         {"scale", "dropoutProbability", "keyLow", "keyHigh", "headOffset", "longest", "numScores"},
                         validate_forward,
                         forward_flops});
MTL_REGISTER_OP(OpSchema{"packed_attention_backward",
                         1,
                         {"qkvGradient", "outputGradient", "output", "logSumExp", "qkv", "starts", "samples?"},
                         {"scale", "dropoutProbability", "keyLow", "keyHigh", "headOffset", "longest", "numScores"},
                         validate_backward,
                         backward_flops});

}  // namespace

AttentionProblem packed_attention_problem(const OpCall& call, int qkv) {
  const TensorView& tensor = call.tensor(qkv);
  AttentionProblem problem = {};
  problem.sequence = call.integer(kLongest);
  problem.batch = call.tensor(qkv + kPackedStarts).size() - 1;
  problem.heads = tensor.dim(1);
  problem.head_size = tensor.dim(3);
  problem.samples = call.data<const int64_t>(qkv + kPackedSamples);
  problem.scale = call.attribute(kScale);
  problem.dropout_probability = call.attribute(kDropoutProbability);
  problem.key = {static_cast<uint32_t>(call.attribute(kKeyLow)), static_cast<uint32_t>(call.attribute(kKeyHigh))};
  problem.head_offset = call.integer(kHeadOffset);
  problem.starts = call.data<const int32_t>(qkv + kPackedStarts);
  problem.rows = tensor.dim(0);
  return problem;
}

Status check_packed_starts(const OpCall& call, const AttentionProblem& problem) {
  const int32_t* starts = problem.starts;
  for (int64_t sample = 0; sample < problem.batch; ++sample) {
    const int64_t length = int64_t{starts[sample + 1]} - starts[sample];
    if (length >= 0 && length <= problem.sequence) continue;
    return argument_error(call, "sample %lld has rows %d to %d, expected 0 to longest = %lld rows",
                          static_cast<long long>(sample), starts[sample], starts[sample + 1],
                          static_cast<long long>(problem.sequence));
  }
  if (starts[0] == 0 && starts[problem.batch] <= problem.rows) return ok_status();
  return argument_error(call, "starts go from %d to %d, expected from 0 to at most the %lld rows", starts[0],
                        starts[problem.batch], static_cast<long long>(problem.rows));
}

}  // namespace mtl

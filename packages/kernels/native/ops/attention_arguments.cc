#include "ops/attention_arguments.h"

#include <cmath>

namespace mtl {
namespace {

enum { kScale, kDropoutProbability, kKeyLow, kKeyHigh, kHeadOffset };  // from AttentionArguments::scale on
constexpr int64_t kMaxHeads = 65536;                                   // the head's share of a Philox counter
constexpr double kKeyLimit = 4294967296.0;

// The tensor is qkv's shape without its 3, and of its dtype.
Status expect_output(const OpCall& call, int output, int qkv) {
  const TensorView& tensor = call.tensor(qkv);
  const int64_t heads = tensor.dim(-3), head_size = tensor.dim(-1);
  MTL_RETURN_IF_ERROR(tensor.rank == 4
                          ? expect_shape(call, output, {tensor.dim(0), heads, head_size})
                          : expect_shape(call, output, {tensor.dim(0), tensor.dim(1), heads, head_size}));
  return expect_dtype(call, output, {tensor.dtype});
}

}  // namespace

bool is_integer_below(double value, double limit) { return value >= 0 && value < limit && value == std::floor(value); }

Status expect_qkv(const OpCall& call, int qkv, int rank) {
  MTL_RETURN_IF_ERROR(expect_floating(call, qkv));
  MTL_RETURN_IF_ERROR(expect_rank(call, qkv, rank, rank));
  const TensorView& tensor = call.tensor(qkv);
  const int64_t heads = tensor.dim(-3), head_size = tensor.dim(-1);
  MTL_RETURN_IF_ERROR(rank == 4 ? expect_shape(call, qkv, {tensor.dim(0), heads, 3, head_size})
                                : expect_shape(call, qkv, {tensor.dim(0), tensor.dim(1), heads, 3, head_size}));
  return head_size < 1 ? argument_error(call, "the head size is 0") : ok_status();
}

Status expect_statistics_dtype(const OpCall& call, int log_sum_exp, int qkv) {
  const bool is_double = call.tensor(qkv).dtype == DType::kFloat64;
  return expect_dtype(call, log_sum_exp, {is_double ? DType::kFloat64 : DType::kFloat32});
}

Status expect_scale(const OpCall& call, int scale) {
  const double value = call.attribute(scale);
  if (value > 0 && std::isfinite(value)) return ok_status();
  return argument_error(call, "scale is %g, expected a finite number above 0", value);
}

Status validate_attention_attributes(const OpCall& call, const AttentionArguments& arguments) {
  const int first = arguments.scale;
  MTL_RETURN_IF_ERROR(expect_scale(call, first + kScale));
  const double probability = call.attribute(first + kDropoutProbability);
  if (!(probability >= 0 && probability < 1)) {
    return argument_error(call, "dropoutProbability is %g, expected 0 or more and below 1", probability);
  }
  const double key_low = call.attribute(first + kKeyLow), key_high = call.attribute(first + kKeyHigh);
  if (!is_integer_below(key_low, kKeyLimit) || !is_integer_below(key_high, kKeyLimit)) {
    return argument_error(call, "keyLow and keyHigh are %g and %g, expected integers from 0 to 2^32 - 1", key_low,
                          key_high);
  }
  const int64_t heads = call.tensor(arguments.qkv).dim(-3);
  const double head_offset = call.attribute(first + kHeadOffset);
  if (!is_integer_below(head_offset, static_cast<double>(kMaxHeads - heads + 1))) {
    return argument_error(call, "headOffset is %g with %lld heads, expected an integer and at most %lld heads in all",
                          head_offset, static_cast<long long>(heads), static_cast<long long>(kMaxHeads));
  }
  if (probability > 0 && !call.has(arguments.samples)) {
    return argument_error(call, "dropoutProbability is %g, which needs samples, the global sample numbers",
                          probability);
  }
  return ok_status();
}

Status validate_attention_forward(const OpCall& call, ValidateAttentionInputs validate_inputs) {
  MTL_RETURN_IF_ERROR(validate_inputs(call, kAttentionQkv, kAttentionLogSumExp));
  return expect_output(call, kAttentionOutput, kAttentionQkv);
}

Status validate_attention_backward(const OpCall& call, ValidateAttentionInputs validate_inputs) {
  MTL_RETURN_IF_ERROR(validate_inputs(call, kAttentionBackwardQkv, kAttentionBackwardLogSumExp));
  MTL_RETURN_IF_ERROR(expect_output(call, kAttentionOutputGradient, kAttentionBackwardQkv));
  MTL_RETURN_IF_ERROR(expect_output(call, kAttentionBackwardOutput, kAttentionBackwardQkv));
  return expect_like(call, kAttentionQkvGradient, kAttentionBackwardQkv);
}

AttentionProblem common_attention_problem(const OpCall& call, const AttentionArguments& arguments) {
  const TensorView& tensor = call.tensor(arguments.qkv);
  const int first = arguments.scale;
  AttentionProblem problem = {};
  problem.heads = tensor.dim(-3);
  problem.head_size = tensor.dim(-1);
  problem.samples = call.data<const int64_t>(arguments.samples);
  problem.scale = call.attribute(first + kScale);
  problem.dropout_probability = call.attribute(first + kDropoutProbability);
  problem.key = {static_cast<uint32_t>(call.attribute(first + kKeyLow)),
                 static_cast<uint32_t>(call.attribute(first + kKeyHigh))};
  problem.head_offset = call.integer(first + kHeadOffset);
  return problem;
}

}  // namespace mtl

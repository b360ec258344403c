// attention_forward: output = dropout(softmax(scale q k^T + mask)) v, flash attention: no S x S matrix is ever stored.
// attention_backward: the gradient of qkv, with the probabilities recomputed from logSumExp (Dao et al. 2022, 2023).
//
//   S sequence, B micro-batch, A heads (of this process), D head size
//   output, outputGradient  [S, B, A, D]       qkv, qkvGradient  [S, B, A, 3, D]
//   logSumExp  [B, A, S] float32 (float64 with float64 inputs): the log of the softmax's denominator
//   keyStart?  [B, S] int32: query s sees keys >= keyStart[b, s] only (the first position of its document)
//   keyMask?   [B, S] uint8: 1 where a key is real, 0 where it is padding
//   samples?   [B] int64: global sample numbers; needed with dropout
//   causal: query s sees keys <= s only. scale: of the scores, above 0.
//   dropoutProbability p: kept probabilities are multiplied by 1 / (1 - p). The mask is core/philox.h's: column = key,
//   row = query, head = headOffset + a under the key (keyLow, keyHigh).
//
// A query that sees no key has output 0 and logSumExp kEmptyLogSumExp.
// FLOPs are model FLOPs in the convention of Narayanan et al. 2021: attention in full (the causal half is not taken
// off), recomputation in the backward pass not counted.
#include "ops/attention.h"

#include <cmath>

#include "core/validation.h"

namespace mtl {
namespace {

enum { kCausal, kScale, kDropoutProbability, kKeyLow, kKeyHigh, kHeadOffset };
enum { kKeyStart = 1, kKeyMask, kSamples };  // from qkv on
constexpr int64_t kMaxHeads = 65536;         // the head's share of a Philox counter

bool is_integer_below(double value, double limit) { return value >= 0 && value < limit && value == std::floor(value); }

Status validate_attributes(const OpCall& call, int qkv) {
  const double scale = call.attribute(kScale);
  const double probability = call.attribute(kDropoutProbability);
  if (!(scale > 0 && std::isfinite(scale))) {
    return argument_error(call, "scale is %g, expected a finite number above 0", scale);
  }
  if (!(probability >= 0 && probability < 1)) {
    return argument_error(call, "dropoutProbability is %g, expected 0 or more and below 1", probability);
  }
  if (!is_integer_below(call.attribute(kKeyLow), 4294967296.0) ||
      !is_integer_below(call.attribute(kKeyHigh), 4294967296.0)) {
    return argument_error(call, "keyLow and keyHigh are %g and %g, expected integers from 0 to 2^32 - 1",
                          call.attribute(kKeyLow), call.attribute(kKeyHigh));
  }
  const int64_t heads = call.tensor(qkv).dim(2);
  if (!is_integer_below(call.attribute(kHeadOffset), static_cast<double>(kMaxHeads - heads + 1))) {
    return argument_error(call, "headOffset is %g with %lld heads, expected an integer and at most %lld heads in all",
                          call.attribute(kHeadOffset), static_cast<long long>(heads),
                          static_cast<long long>(kMaxHeads));
  }
  if (probability > 0 && !call.has(qkv + kSamples)) {
    return argument_error(call, "dropoutProbability is %g, which needs samples, the global sample numbers",
                          probability);
  }
  return ok_status();
}

// Everything but the outputs and gradients.
Status validate_inputs(const OpCall& call, int qkv, int log_sum_exp) {
  MTL_RETURN_IF_ERROR(expect_floating(call, qkv));
  MTL_RETURN_IF_ERROR(expect_rank(call, qkv, 5, 5));
  const TensorView& tensor = call.tensor(qkv);
  const int64_t sequence = tensor.dim(0), batch = tensor.dim(1), heads = tensor.dim(2);
  MTL_RETURN_IF_ERROR(expect_shape(call, qkv, {sequence, batch, heads, 3, tensor.dim(4)}));
  if (tensor.dim(4) < 1) return argument_error(call, "the head size is 0");
  MTL_RETURN_IF_ERROR(expect_shape(call, log_sum_exp, {batch, heads, sequence}));
  MTL_RETURN_IF_ERROR(
      expect_dtype(call, log_sum_exp, {tensor.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32}));
  for (const int optional : {qkv + kKeyStart, qkv + kKeyMask}) {
    if (!call.has(optional)) continue;
    MTL_RETURN_IF_ERROR(expect_shape(call, optional, {batch, sequence}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, optional, {optional == qkv + kKeyStart ? DType::kInt32 : DType::kUint8}));
  }
  if (call.has(qkv + kSamples)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, qkv + kSamples, {batch}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, qkv + kSamples, {DType::kInt64}));
  }
  return validate_attributes(call, qkv);
}

// The tensor is [S, B, A, D] of qkv's dtype.
Status expect_output(const OpCall& call, int output, int qkv) {
  const TensorView& tensor = call.tensor(qkv);
  MTL_RETURN_IF_ERROR(expect_shape(call, output, {tensor.dim(0), tensor.dim(1), tensor.dim(2), tensor.dim(4)}));
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

// One product of [S, D] by [D, S] for all heads.
double product_flops(const TensorView& qkv) {
  return 2.0 / 3.0 * static_cast<double>(qkv.size()) * static_cast<double>(qkv.dim(0));
}

double forward_flops(const OpCall& call) { return 2 * product_flops(call.tensor(kAttentionQkv)); }
double backward_flops(const OpCall& call) { return 4 * product_flops(call.tensor(kAttentionBackwardQkv)); }

MTL_REGISTER_OP(OpSchema{"attention_forward",
                         2,
                         {"output", "logSumExp", "qkv", "keyStart?", "keyMask?", "samples?"},
                         {"causal", "scale", "dropoutProbability", "keyLow", "keyHigh", "headOffset"},
                         validate_forward,
                         forward_flops});
MTL_REGISTER_OP(OpSchema{"attention_backward",
                         1,
                         {"qkvGradient", "outputGradient", "output", "logSumExp", "qkv", "keyStart?", "keyMask?",
                          "samples?"},
                         {"causal", "scale", "dropoutProbability", "keyLow", "keyHigh", "headOffset"},
                         validate_backward,
                         backward_flops});

}  // namespace

AttentionProblem attention_problem(const OpCall& call, int qkv) {
  const TensorView& tensor = call.tensor(qkv);
  AttentionProblem problem;
  problem.sequence = tensor.dim(0);
  problem.batch = tensor.dim(1);
  problem.heads = tensor.dim(2);
  problem.head_size = tensor.dim(4);
  problem.key_start = call.data<const int32_t>(qkv + kKeyStart);
  problem.key_mask = call.data<const uint8_t>(qkv + kKeyMask);
  problem.samples = call.data<const int64_t>(qkv + kSamples);
  problem.causal = call.flag(kCausal);
  problem.scale = call.attribute(kScale);
  problem.dropout_probability = call.attribute(kDropoutProbability);
  problem.key = {static_cast<uint32_t>(call.attribute(kKeyLow)), static_cast<uint32_t>(call.attribute(kKeyHigh))};
  problem.head_offset = call.integer(kHeadOffset);
  problem.starts = nullptr;
  problem.rows = problem.sequence * problem.batch;
  return problem;
}

}  // namespace mtl

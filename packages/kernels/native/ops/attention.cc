// attention_forward: output = dropout(softmax(scale q k^T + mask)) v, flash attention: no S x S matrix is
// ever stored.
// attention_backward: the gradient of qkv, with the probabilities recomputed from logSumExp (Dao et al. 2022,
// 2023).
//
//   S sequence, B micro-batch, A heads (of this process), D head size
//   output, outputGradient  [S, B, A, D]       qkv, qkvGradient  [S, B, A, 3, D]
//   logSumExp  [B, A, S] float32 (float64 with float64 inputs): the log of the softmax's denominator
//   keyStart?  [B, S] int32: query s sees keys >= keyStart[b, s] only (the first position of its document)
//   keyMask?   [B, S] uint8: 1 where a key is real, 0 where it is padding
//   samples?   [B] int64: global sample numbers; needed with dropout
//   causal: query s sees keys <= s only. scale: of the scores, above 0.
//   dropoutProbability p: kept probabilities are multiplied by 1 / (1 - p). The mask is core/philox.h's:
//   column = key, row = query, head = headOffset + a under the key (keyLow, keyHigh).
//
// A query that sees no key has output 0 and logSumExp kEmptyLogSumExp.
// FLOPs are model FLOPs in the convention of Narayanan et al. 2021: attention in full (the causal half is not
// taken off), recomputation in the backward pass not counted.
#include "ops/attention_arguments.h"

namespace mtl {
namespace {

enum { kCausal, kScale };                    // attributes; those that follow are AttentionArguments'
enum { kKeyStart = 1, kKeyMask, kSamples };  // from qkv on

AttentionArguments arguments_at(int qkv) { return {qkv, qkv + kSamples, kScale}; }

// Everything but the outputs and gradients.
Status validate_inputs(const OpCall& call, int qkv, int log_sum_exp) {
  MTL_RETURN_IF_ERROR(expect_qkv(call, qkv, 5));
  const TensorView& tensor = call.tensor(qkv);
  const int64_t sequence = tensor.dim(0), batch = tensor.dim(1), heads = tensor.dim(2);
  MTL_RETURN_IF_ERROR(expect_shape(call, log_sum_exp, {batch, heads, sequence}));
  MTL_RETURN_IF_ERROR(expect_statistics_dtype(call, log_sum_exp, qkv));
  for (const int optional : {qkv + kKeyStart, qkv + kKeyMask}) {
    if (!call.has(optional)) continue;
    MTL_RETURN_IF_ERROR(expect_shape(call, optional, {batch, sequence}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, optional, {optional == qkv + kKeyStart ? DType::kInt32 : DType::kUint8}));
  }
  if (call.has(qkv + kSamples)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, qkv + kSamples, {batch}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, qkv + kSamples, {DType::kInt64}));
  }
  return validate_attention_attributes(call, arguments_at(qkv));
}

Status validate_forward(const OpCall& call) { return validate_attention_forward(call, validate_inputs); }
Status validate_backward(const OpCall& call) { return validate_attention_backward(call, validate_inputs); }

// One matmul of [S, D] by [D, S] for all heads.
double matmul_flops(const TensorView& qkv) {
  return 2.0 / 3.0 * static_cast<double>(qkv.size()) * static_cast<double>(qkv.dim(0));
}

double forward_flops(const OpCall& call) { return 2 * matmul_flops(call.tensor(kAttentionQkv)); }
double backward_flops(const OpCall& call) { return 4 * matmul_flops(call.tensor(kAttentionBackwardQkv)); }

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
  AttentionProblem problem = common_attention_problem(call, arguments_at(qkv));
  problem.sequence = tensor.dim(0);
  problem.batch = tensor.dim(1);
  problem.key_start = call.data<const int32_t>(qkv + kKeyStart);
  problem.key_mask = call.data<const uint8_t>(qkv + kKeyMask);
  problem.causal = call.flag(kCausal);
  problem.rows = problem.sequence * problem.batch;
  return problem;
}

}  // namespace mtl

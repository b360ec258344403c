// attention_forward: output = dropout(softmax(scale q k^T + mask)) v, flash attention: no S x S matrix is
// ever stored.
// attention_backward: the gradient of qkv, with the probabilities recomputed from logSumExp (Dao et al. 2022,
// 2023).
//
//   S sequence, B micro-batch, D head size
//   A query heads (of this process) in G groups of R = A / G: the heads of a group share its key and value
//   (grouped-query attention, Ainslie et al. 2023; R = 1: multi-head attention, G = 1: multi-query attention)
//   output, outputGradient  [S, B, A, D]       qkv, qkvGradient  [S, B, G, R + 2, D]
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

// Everything but the outputs and gradients.
template <typename Op>
Status validate_inputs(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_qkv(call, Op::kQkv, 5));
  const TensorView& qkv = call.tensor(Op::kQkv);
  const int64_t sequence = qkv.dim(0), batch = qkv.dim(1);
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kLogSumExp, {batch, num_heads(qkv), sequence}));
  MTL_RETURN_IF_ERROR(expect_statistics_dtype(call, Op::kLogSumExp, Op::kQkv));
  for (const int optional : {int{Op::kKeyStart}, int{Op::kKeyMask}}) {
    if (!call.has(optional)) continue;
    MTL_RETURN_IF_ERROR(expect_shape(call, optional, {batch, sequence}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, optional, {optional == Op::kKeyStart ? DType::kInt32 : DType::kUint8}));
  }
  if (call.has(Op::kSamples)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kSamples, {batch}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kSamples, {DType::kInt64}));
  }
  return validate_attention_attributes(call, attributes_of<Op>());
}

Status validate_forward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(validate_inputs<AttentionForward>(call));
  return validate_attention_forward<AttentionForward>(call);
}

Status validate_backward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(validate_inputs<AttentionBackward>(call));
  return validate_attention_backward<AttentionBackward>(call);
}

// One matmul of [S, D] by [D, S] for all heads.
double matmul_flops(const TensorView& qkv) {
  const double positions = static_cast<double>(qkv.dim(0) * qkv.dim(1));
  return 2.0 * positions * static_cast<double>(num_heads(qkv) * qkv.dim(-1)) * static_cast<double>(qkv.dim(0));
}

double forward_flops(const OpCall& call) { return 2 * matmul_flops(call.tensor(AttentionForward::kQkv)); }
double backward_flops(const OpCall& call) { return 4 * matmul_flops(call.tensor(AttentionBackward::kQkv)); }

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

// Lengths and masks.
template <typename Op>
AttentionProblem with_masks(const OpCall& call, AttentionProblem problem) {
  const TensorView& qkv = call.tensor(Op::kQkv);
  problem.num_queries = problem.num_keys = qkv.dim(0);
  problem.batch = qkv.dim(1);
  problem.key_start = call.data<const int32_t>(Op::kKeyStart);
  problem.key_mask = call.data<const uint8_t>(Op::kKeyMask);
  problem.causal = call.flag(Op::kCausal);
  return problem;
}

}  // namespace

AttentionProblem attention_forward_problem(const OpCall& call) {
  return with_masks<AttentionForward>(call, forward_operands<AttentionForward>(call));
}

AttentionProblem attention_backward_problem(const OpCall& call) {
  return with_masks<AttentionBackward>(call, backward_operands<AttentionBackward>(call));
}

}  // namespace mtl

// attention_forward: output = dropout(softmax(scale q k^T + mask)) v, flash attention: no S x S matrix is
// ever stored.
// attention_backward: the gradients of query, key and value, with the probabilities recomputed from logSumExp
// (Dao et al. 2022, 2023).
//
//   S sequence, B micro-batch, D head size
//   A query heads (of this process) in G groups of R = A / G: the heads of a group share its key and value
//   (grouped-query attention, Ainslie et al. 2023; R = 1: multi-head attention, G = 1: multi-query attention)
//   query  [S, B, A, D] or [S, B, G, R, D]     key, value  [S, B, G, D]     gradients have these shapes, too
//   output, outputGradient  [S, B, A, D]
//   logSumExp  [B, A, S] float32 (float64 with float64 inputs): the log of the softmax's denominator
//   keyStart?  [B, S] int32: query s attends only to keys >= keyStart[b, s] (the first position of its document)
//   keyMask?   [B, S] uint8: 1 where a key is real, 0 where it is padding
//   samples?   [B] int64: global sample numbers; needed with dropout
//   causal: query s attends only to keys <= s. scale: of the scores, above 0.
//   dropoutProbability p: kept probabilities are multiplied by 1 / (1 - p). The mask is core/philox.h's:
//   column = key, row = query, head = headOffset + a under the key (keyLow, keyHigh).
//
// query, key, value and their gradients may be strided views whose last dimension is contiguous: the parts of
// a packed projection are read and written in place. A query without visible keys has output 0 and logSumExp
// kEmptyLogSumExp.
// FLOPs are model FLOPs in the convention of Narayanan et al. 2021: full attention (the causal half is not
// subtracted), recomputation in the backward pass not counted.
#include "ops/attention_arguments.h"

namespace mtl {
namespace {

struct Sizes {
  int64_t sequence, batch, heads, groups, head_size;
};

// For a query of 4 or 5 dimensions and a key of 4.
template <typename Op>
Sizes sizes_of(const OpCall& call) {
  const TensorView& query = call.tensor(Op::kQuery);
  const int64_t heads = query.rank == 5 ? query.dim(2) * query.dim(3) : query.dim(2);
  return {query.dim(0), query.dim(1), heads, call.tensor(Op::kKey).dim(2), query.dim(-1)};
}

Status expect_contiguous_heads(const OpCall& call, int tensor) {
  const TensorView& view = call.tensor(tensor);
  if (view.dim(-1) == 1 || view.stride(-1) == 1) return ok_status();
  return error_status("MTL_SHAPE", "%s: the elements of a head of %s are %lld elements apart, expected a last dimension with "
                      "stride 1", call.op, tensor_name(call, tensor), static_cast<long long>(view.stride(-1)));
}

template <typename Op>
Status validate_operands(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kQuery));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kQuery, 4, 5));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kKey, 4, 4));
  const TensorView& query = call.tensor(Op::kQuery);
  const auto [sequence, batch, heads, groups, head_size] = sizes_of<Op>(call);
  if (head_size < 1) return argument_error(call, "the head size is 0");
  const bool has_groups = query.rank == 5;
  if (has_groups ? query.dim(2) != groups : groups == 0 ? heads != 0 : heads % groups != 0) {
    return error_status("MTL_SHAPE", "%s: query has %lld %s and key %lld heads, expected %s", call.op,
                        static_cast<long long>(query.dim(2)), has_groups ? "groups" : "heads", static_cast<long long>(groups),
                        has_groups ? "as many" : "a multiple of the key's");
  }
  for (const int tensor : {int{Op::kKey}, int{Op::kValue}}) {
    MTL_RETURN_IF_ERROR(expect_shape(call, tensor, {sequence, batch, groups, head_size}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {query.dtype}));
    MTL_RETURN_IF_ERROR(expect_contiguous_heads(call, tensor));
  }
  return expect_contiguous_heads(call, Op::kQuery);
}

template <typename Op>
Status expect_output(const OpCall& call, int tensor) {
  const Sizes sizes = sizes_of<Op>(call);
  MTL_RETURN_IF_ERROR(expect_shape(call, tensor, {sizes.sequence, sizes.batch, sizes.heads, sizes.head_size}));
  return expect_dtype(call, tensor, {call.tensor(Op::kQuery).dtype});
}

// Everything but the outputs and gradients.
template <typename Op>
Status validate_inputs(const OpCall& call) {
  MTL_RETURN_IF_ERROR(validate_operands<Op>(call));
  const Sizes sizes = sizes_of<Op>(call);
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kLogSumExp, {sizes.batch, sizes.heads, sizes.sequence}));
  MTL_RETURN_IF_ERROR(expect_statistics_dtype(call, Op::kLogSumExp, Op::kQuery));
  for (const int optional : {int{Op::kKeyStart}, int{Op::kKeyMask}}) {
    if (!call.has(optional)) continue;
    MTL_RETURN_IF_ERROR(expect_shape(call, optional, {sizes.batch, sizes.sequence}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, optional, {optional == Op::kKeyStart ? DType::kInt32 : DType::kUint8}));
  }
  if (call.has(Op::kSamples)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kSamples, {sizes.batch}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kSamples, {DType::kInt64}));
  }
  return validate_attention_attributes(call, attributes_of<Op>(), sizes.heads);
}

Status validate_forward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(validate_inputs<AttentionForward>(call));
  return expect_output<AttentionForward>(call, AttentionForward::kOutput);
}

Status validate_backward(const OpCall& call) {
  using Op = AttentionBackward;
  MTL_RETURN_IF_ERROR(validate_inputs<Op>(call));
  MTL_RETURN_IF_ERROR(expect_output<Op>(call, Op::kOutputGradient));
  MTL_RETURN_IF_ERROR(expect_output<Op>(call, Op::kOutput));
  const int gradients[][2] = {{Op::kQueryGradient, Op::kQuery}, {Op::kKeyGradient, Op::kKey}, {Op::kValueGradient, Op::kValue}};
  for (const auto& [gradient, operand] : gradients) {
    MTL_RETURN_IF_ERROR(expect_like(call, gradient, operand));
    MTL_RETURN_IF_ERROR(expect_contiguous_heads(call, gradient));
  }
  return ok_status();
}

// One matmul of [S, D] by [D, S] for all heads.
template <typename Op>
double matmul_flops(const OpCall& call) {
  const Sizes sizes = sizes_of<Op>(call);
  const double positions = static_cast<double>(sizes.sequence * sizes.batch);
  return 2.0 * positions * static_cast<double>(sizes.heads * sizes.head_size) * static_cast<double>(sizes.sequence);
}

double forward_flops(const OpCall& call) { return 2 * matmul_flops<AttentionForward>(call); }
double backward_flops(const OpCall& call) { return 4 * matmul_flops<AttentionBackward>(call); }

MTL_REGISTER_OP(OpSchema{"attention_forward",
                         2,
                         {"output", "logSumExp", "query", "key", "value", "keyStart?", "keyMask?", "samples?"},
                         {"causal", "scale", "dropoutProbability", "keyLow", "keyHigh", "headOffset"},
                         validate_forward,
                         forward_flops,
                         strided_tensors(AttentionForward::kQuery, AttentionForward::kKey, AttentionForward::kValue)});
MTL_REGISTER_OP(OpSchema{"attention_backward",
                         3,
                         {"queryGradient", "keyGradient", "valueGradient", "outputGradient", "output", "logSumExp",
                          "query", "key", "value", "keyStart?", "keyMask?", "samples?"},
                         {"causal", "scale", "dropoutProbability", "keyLow", "keyHigh", "headOffset"},
                         validate_backward,
                         backward_flops,
                         strided_tensors(AttentionBackward::kQueryGradient, AttentionBackward::kKeyGradient,
                                         AttentionBackward::kValueGradient, AttentionBackward::kQuery,
                                         AttentionBackward::kKey, AttentionBackward::kValue)});

// Shared by forward and backward.
template <typename Op>
AttentionProblem problem_of(const OpCall& call) {
  const Sizes sizes = sizes_of<Op>(call);
  AttentionProblem problem = {};
  problem.dtype = call.tensor(Op::kQuery).dtype;
  problem.num_queries = problem.num_keys = sizes.sequence;
  problem.batch = sizes.batch;
  problem.heads = sizes.heads;
  problem.groups = sizes.groups;
  problem.head_size = sizes.head_size;
  problem.query = query_operand(call.tensor(Op::kQuery), sizes.groups);
  problem.key = key_operand(call.tensor(Op::kKey));
  problem.value = key_operand(call.tensor(Op::kValue));
  problem.output = heads_of(call.tensor(Op::kOutput), sizes.groups);
  problem.log_sum_exp = call.tensor(Op::kLogSumExp).data;
  problem.key_start = call.data<const int32_t>(Op::kKeyStart);
  problem.key_mask = call.data<const uint8_t>(Op::kKeyMask);
  problem.causal = call.flag(Op::kCausal);
  set_attention_attributes(&problem, call, attributes_of<Op>());
  return problem;
}

}  // namespace

AttentionProblem attention_forward_problem(const OpCall& call) { return problem_of<AttentionForward>(call); }

AttentionProblem attention_backward_problem(const OpCall& call) {
  using Op = AttentionBackward;
  AttentionProblem problem = problem_of<Op>(call);
  problem.query_gradient = query_operand(call.tensor(Op::kQueryGradient), problem.groups);
  problem.key_gradient = key_operand(call.tensor(Op::kKeyGradient));
  problem.value_gradient = key_operand(call.tensor(Op::kValueGradient));
  problem.output_gradient = heads_of(call.tensor(Op::kOutputGradient), problem.groups);
  return problem;
}

}  // namespace mtl

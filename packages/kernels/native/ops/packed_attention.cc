// packed_attention_forward, packed_attention_backward: attention over contiguous samples without padding: a
// position attends to all positions of its own sample.
//
//   T rows, D head size, N samples, A query heads (of this process) in G groups of R = A / G, as in
//   attention.cc
//   output, outputGradient  [T, A, D]       qkv, qkvGradient  [T, G, R + 2, D]
//   logSumExp  [A, T] float32 (float64 with float64 inputs), as in attention.cc
//   starts  [N + 1] int32: sample n has the rows starts[n] to starts[n + 1]; rows from starts[N] on belong to no sample: output
//   and gradient are 0 there; inputs must be finite there, as where a key mask hides them
//   samples?  [N] int64: global sample numbers; needed with dropout
//   longest: no sample has more rows. numScores: the sum of the squares of all lengths, for counting FLOPs.
//   Dropout as in attention.cc, row and column of the mask being positions within the sample: it drops the
//   same elements as for the same samples with padding.
#include "ops/attention_arguments.h"

namespace mtl {
namespace {

// Everything but the outputs and gradients.
template <typename Op>
Status validate_inputs(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_qkv(call, Op::kQkv, 4));
  const TensorView &qkv = call.tensor(Op::kQkv), &starts = call.tensor(Op::kStarts);
  const int64_t rows = qkv.dim(0);
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kLogSumExp, {num_heads(qkv), rows}));
  MTL_RETURN_IF_ERROR(expect_statistics_dtype(call, Op::kLogSumExp, Op::kQkv));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kStarts, 1, 1));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kStarts, {DType::kInt32}));
  if (starts.size() < 1) return argument_error(call, "starts is empty, expected one more than samples");
  if (call.has(Op::kSamples)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kSamples, {starts.size() - 1}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kSamples, {DType::kInt64}));
  }
  MTL_RETURN_IF_ERROR(validate_attention_attributes(call, attributes_of<Op>(), num_heads(qkv)));
  const double longest = call.attribute(Op::kLongest);
  if (is_integer_below(longest, static_cast<double>(rows + 1))) return ok_status();
  return argument_error(call, "longest is %g, expected an integer from 0 to the %lld rows", longest,
                        static_cast<long long>(rows));
}

Status validate_forward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(validate_inputs<PackedAttentionForward>(call));
  return validate_attention_forward<PackedAttentionForward>(call);
}

Status validate_backward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(validate_inputs<PackedAttentionBackward>(call));
  return validate_attention_backward<PackedAttentionBackward>(call);
}

// One matmul for all heads of queries and keys, or of probabilities and values.
template <typename Op>
double matmul_flops(const OpCall& call) {
  const TensorView& qkv = call.tensor(Op::kQkv);
  return 2.0 * static_cast<double>(num_heads(qkv) * qkv.dim(-1)) * call.attribute(Op::kNumScores);
}

double forward_flops(const OpCall& call) { return 2 * matmul_flops<PackedAttentionForward>(call); }
double backward_flops(const OpCall& call) { return 4 * matmul_flops<PackedAttentionBackward>(call); }

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

// The samples.
template <typename Op>
AttentionProblem with_starts(const OpCall& call, AttentionProblem problem) {
  problem.num_queries = problem.num_keys = call.integer(Op::kLongest);
  problem.batch = call.tensor(Op::kStarts).size() - 1;
  problem.starts = call.data<const int32_t>(Op::kStarts);
  problem.rows = call.tensor(Op::kQkv).dim(0);
  return problem;
}

}  // namespace

AttentionProblem packed_attention_forward_problem(const OpCall& call) {
  return with_starts<PackedAttentionForward>(call, forward_operands<PackedAttentionForward>(call));
}

AttentionProblem packed_attention_backward_problem(const OpCall& call) {
  return with_starts<PackedAttentionBackward>(call, backward_operands<PackedAttentionBackward>(call));
}

Status check_packed_starts(const OpCall& call, const AttentionProblem& problem) {
  const int32_t* starts = problem.starts;
  for (int64_t sample = 0; sample < problem.batch; ++sample) {
    const int64_t length = int64_t{starts[sample + 1]} - starts[sample];
    if (length >= 0 && length <= problem.num_keys) continue;
    return argument_error(call, "sample %lld has rows %d to %d, expected 0 to longest = %lld rows",
                          static_cast<long long>(sample), starts[sample], starts[sample + 1],
                          static_cast<long long>(problem.num_keys));
  }
  if (starts[0] == 0 && starts[problem.batch] <= problem.rows) return ok_status();
  return argument_error(call, "starts go from %d to %d, expected from 0 to at most the %lld rows", starts[0],
                        starts[problem.batch], static_cast<long long>(problem.rows));
}

}  // namespace mtl

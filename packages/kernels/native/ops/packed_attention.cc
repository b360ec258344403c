// packed_attention_forward, packed_attention_backward: attention over samples that lie one after the other
// without padding: a position sees all positions of its own sample.
//
//   T rows, A heads (of this process), D head size, N samples
//   output, outputGradient  [T, A, D]       qkv, qkvGradient  [T, A, 3, D]
//   logSumExp  [A, T] float32 (float64 with float64 inputs), as in attention.cc
//   starts  [N + 1] int32: sample n has the rows starts[n] to starts[n + 1]; rows from starts[N] on belong to no sample: output
//   and gradient are 0 there; inputs have to be finite there, as where a key mask hides them
//   samples?  [N] int64: global sample numbers; needed with dropout
//   longest: no sample has more rows. numScores: the sum of the squares of all lengths, for counting FLOPs.
//   Dropout as in attention.cc, row and column of the mask being positions within the sample: it drops what
//   it drops of the same samples with padding.
#include "ops/attention_arguments.h"

namespace mtl {
namespace {

enum { kScale, kLongest = 5, kNumScores };  // attributes; those between the first two are AttentionArguments'

AttentionArguments arguments_at(int qkv) { return {qkv, qkv + kPackedSamples, kScale}; }

// Everything but the outputs and gradients.
Status validate_inputs(const OpCall& call, int qkv, int log_sum_exp) {
  MTL_RETURN_IF_ERROR(expect_qkv(call, qkv, 4));
  const TensorView& tensor = call.tensor(qkv);
  const int64_t rows = tensor.dim(0), heads = tensor.dim(1);
  MTL_RETURN_IF_ERROR(expect_shape(call, log_sum_exp, {heads, rows}));
  MTL_RETURN_IF_ERROR(expect_statistics_dtype(call, log_sum_exp, qkv));
  const int starts = qkv + kPackedStarts, samples = qkv + kPackedSamples;
  MTL_RETURN_IF_ERROR(expect_rank(call, starts, 1, 1));
  MTL_RETURN_IF_ERROR(expect_dtype(call, starts, {DType::kInt32}));
  if (call.tensor(starts).size() < 1) return argument_error(call, "starts is empty, expected one more than samples");
  if (call.has(samples)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, samples, {call.tensor(starts).size() - 1}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, samples, {DType::kInt64}));
  }
  MTL_RETURN_IF_ERROR(validate_attention_attributes(call, arguments_at(qkv)));
  if (is_integer_below(call.attribute(kLongest), static_cast<double>(rows + 1))) return ok_status();
  return argument_error(call, "longest is %g, expected an integer from 0 to the %lld rows", call.attribute(kLongest),
                        static_cast<long long>(rows));
}

Status validate_forward(const OpCall& call) { return validate_attention_forward(call, validate_inputs); }
Status validate_backward(const OpCall& call) { return validate_attention_backward(call, validate_inputs); }

// One matmul for all heads of queries and keys, or of probabilities and values.
double matmul_flops(const OpCall& call, int qkv) {
  const TensorView& tensor = call.tensor(qkv);
  return 2.0 * static_cast<double>(tensor.dim(1) * tensor.dim(3)) * call.attribute(kNumScores);
}

double forward_flops(const OpCall& call) { return 2 * matmul_flops(call, kAttentionQkv); }
double backward_flops(const OpCall& call) { return 4 * matmul_flops(call, kAttentionBackwardQkv); }

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
  AttentionProblem problem = common_attention_problem(call, arguments_at(qkv));
  problem.sequence = call.integer(kLongest);
  problem.batch = call.tensor(qkv + kPackedStarts).size() - 1;
  problem.starts = call.data<const int32_t>(qkv + kPackedStarts);
  problem.rows = call.tensor(qkv).dim(0);
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

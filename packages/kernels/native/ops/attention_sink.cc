// attention_sink_forward: adds a sink to the softmax of every query. A sink is a key whose value is 0 and
// whose score is a parameter of the head (Xiao et al. 2023; OpenAI 2025, "gpt-oss"). output and logSumExp are
// results of attention_forward over all keys, and become the results with the sink:
//
//   logSumExp' = log(e^logSumExp + e^sink)        output' = output * e^(logSumExp - logSumExp')
//
// attention_sink_backward: subtracts from the gradient of the sinks the sum over rows of
// e^(sink - logSumExp') * rowSums'. attention_backward computes the gradients of query, key and value from
// logSumExp' and rowSums'.
//
//   S query positions, B micro-batch size, A query heads, E value head size, T rows of packed samples
//   output         [S, B, A, E] or [T, A, E], written in place
//   logSumExp      [B, A, S] or [A, T] float32 (float64 for float64 outputs), written in place by forward
//   rowSums        as logSumExp: the row sums of output' times its gradient (attention_row_sums)
//   sinks?         [A], the dtype of output or of logSumExp; absent: 0 for each head ("softmax1", Miller
//   2023)
//   sinksGradient  [A], the dtype of logSumExp; the op adds to it
//
// A query without visible keys has output 0 and logSumExp' = sink. Only exponentials of differences are
// computed, so none overflows.
#include "ops/attention_sink.h"

#include "core/validation.h"

namespace mtl {
namespace {

DType statistics_dtype(DType dtype) { return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

Status validate_forward(const OpCall& call) {
  using Op = AttentionSinkForward;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kOutput));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kOutput, 3, 4));
  const TensorView& output = call.tensor(Op::kOutput);
  MTL_RETURN_IF_ERROR(output.rank == 3
                          ? expect_shape(call, Op::kLogSumExp, {output.dim(1), output.dim(0)})
                          : expect_shape(call, Op::kLogSumExp, {output.dim(1), output.dim(2), output.dim(0)}));
  const DType statistics = statistics_dtype(output.dtype);
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kLogSumExp, {statistics}));
  MTL_RETURN_IF_ERROR(expect_separate_output(call, Op::kOutput, {Op::kLogSumExp, Op::kSinks}));
  if (!call.has(Op::kSinks)) return ok_status();
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kSinks, {output.dim(-2)}));
  return expect_floating(call, Op::kSinks);
}

Status validate_backward(const OpCall& call) {
  using Op = AttentionSinkBackward;
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kLogSumExp, 2, 3));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kLogSumExp, {DType::kFloat32, DType::kFloat64}));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kRowSums, Op::kLogSumExp));
  const TensorView& log_sum_exp = call.tensor(Op::kLogSumExp);
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kSinks, {log_sum_exp.dim(-2)}));
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kSinks));
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kSinksGradient, {log_sum_exp.dim(-2)}));
  return expect_dtype(call, Op::kSinksGradient, {log_sum_exp.dtype});
}

MTL_REGISTER_OP(OpSchema{"attention_sink_forward", 2, {"output", "logSumExp", "sinks?"}, {}, validate_forward, nullptr});
MTL_REGISTER_OP(
    OpSchema{"attention_sink_backward", 1, {"sinksGradient", "rowSums", "logSumExp", "sinks"}, {}, validate_backward, nullptr});

}  // namespace

SinkRows sink_rows_of(const OpCall& call) {
  const TensorView& output = call.tensor(AttentionSinkForward::kOutput);
  return {output.rows(), output.dim(-1), output.dim(0), output.rank == 3 ? 1 : output.dim(1), output.dim(-2)};
}

}  // namespace mtl

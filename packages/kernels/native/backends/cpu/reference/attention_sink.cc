#include "ops/attention_sink.h"

#include <cmath>

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

Status forward(const OpCall& call) {
  using Op = AttentionSinkForward;
  const TensorView &output = call.tensor(Op::kOutput), &log_sum_exp = call.tensor(Op::kLogSumExp);
  const SinkRows rows = sink_rows_of(call);
  for (int64_t row = 0; row < rows.count; ++row) {
    const double sink = call.has(Op::kSinks) ? get(call.tensor(Op::kSinks), rows.head_of(row)) : 0.0;
    const int64_t at = rows.statistics_of(row);
    const double before = get(log_sum_exp, at), kept = 1.0 / (1.0 + std::exp(sink - before));
    for (int64_t d = row * rows.value_size; d < (row + 1) * rows.value_size; ++d) set(output, d, kept * get(output, d));
    set(log_sum_exp, at, (sink > before ? sink : before) + std::log1p(std::exp(-std::fabs(sink - before))));
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = AttentionSinkBackward;
  const TensorView &log_sum_exp = call.tensor(Op::kLogSumExp), &gradient = call.tensor(Op::kSinksGradient);
  const int64_t positions = log_sum_exp.dim(-1), heads = log_sum_exp.dim(-2);
  for (int64_t head = 0; head < heads; ++head) {
    const double sink = get(call.tensor(Op::kSinks), head);
    double total = 0.0;
    for (int64_t row = head; row < log_sum_exp.rows(); row += heads) {
      for (int64_t at = row * positions; at < (row + 1) * positions; ++at) {
        total += std::exp(sink - get(log_sum_exp, at)) * get(call.tensor(Op::kRowSums), at);
      }
    }
    set(gradient, head, get(gradient, head) - total);
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("attention_sink_forward", forward);
MTL_REGISTER_REFERENCE("attention_sink_backward", backward);

}  // namespace
}  // namespace mtl::reference

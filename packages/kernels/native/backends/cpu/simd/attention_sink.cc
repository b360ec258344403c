#include "ops/attention_sink.h"

#include <math.h>

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

// Returns a head's sink as float. It may have any floating dtype except float64.
float sink_at(const OpCall& call, int tensor, int64_t head) {
  if (!call.has(tensor)) return 0.0f;
  float sink = 0.0f;
  (void)for_floating(call.tensor(tensor).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    float lanes[kLanes];
    store_up_to(lanes, load_up_to(call.data<const T>(tensor) + head, 1), kLanes);
    sink = lanes[0];
    return ok_status();
  });
  return sink;
}

template <typename T>
void add_sinks(const OpCall& call) {
  using Op = AttentionSinkForward;
  const SinkRows rows = sink_rows_of(call);
  T* const output = call.data<T>(Op::kOutput);
  float* const log_sum_exp = call.data<float>(Op::kLogSumExp);
  for_each(rows.count, rows.count * rows.value_size, [&](int64_t row) {
    const float sink = sink_at(call, Op::kSinks, rows.head_of(row));
    float* const at = log_sum_exp + rows.statistics_of(row);
    const float before = *at, kept = 1.0f / (1.0f + expf(sink - before));  // 0 where e^(difference) overflows
    T* const to = output + row * rows.value_size;
    for (int64_t d = 0; d < rows.value_size; d += kLanes) {
      const int64_t left = rows.value_size - d;
      store_up_to(to + d, load_up_to(to + d, left) * kept, left);
    }
    *at = (sink > before ? sink : before) + log1pf(expf(-fabsf(sink - before)));
  });
}

Status forward(const OpCall& call) {
  return for_floating(call.tensor(AttentionSinkForward::kOutput).dtype, [&](auto* type) {
    add_sinks<__typeof__(*type)>(call);
    return ok_status();
  });
}

Status backward(const OpCall& call) {
  using Op = AttentionSinkBackward;
  const TensorView& statistics = call.tensor(Op::kLogSumExp);
  if (statistics.dtype != DType::kFloat32) {
    return error_status("MTL_DTYPE", "%s: float64 is computed on the reference device only", call.op);
  }
  const int64_t positions = statistics.dim(-1), heads = statistics.dim(-2), rows = statistics.rows();
  const float *const log_sum_exp = call.data<float>(Op::kLogSumExp), *const row_sums = call.data<float>(Op::kRowSums);
  float* const gradient = call.data<float>(Op::kSinksGradient);
  // each task computes one head
  for_each(heads, rows * positions, [&](int64_t head) {
    const float sink = sink_at(call, Op::kSinks, head);
    double total = 0.0;
    for (int64_t row = head; row < rows; row += heads) {
      for (int64_t at = row * positions; at < (row + 1) * positions; ++at) total += expf(sink - log_sum_exp[at]) * row_sums[at];
    }
    gradient[head] -= static_cast<float>(total);
  });
  return ok_status();
}

MTL_REGISTER_CPU("attention_sink_forward", forward);
MTL_REGISTER_CPU("attention_sink_backward", backward);

}  // namespace
}  // namespace mtl

#include "ops/merge_attention.h"

#include <math.h>

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

Status run(const OpCall& call) {
  using Op = MergeAttention;
  if (call.tensor(Op::kOutput).dtype != DType::kFloat32) {
    return error_status("MTL_DTYPE", "%s is computed on the reference device only", name_of(call.tensor(Op::kOutput).dtype));
  }
  const MergedRows rows = merged_rows_of(call);
  float *const output = call.data<float>(Op::kOutput), *const log_sum_exp = call.data<float>(Op::kLogSumExp);
  const float* const part_output = call.data<float>(Op::kPartOutput);
  const float* const part_log_sum_exp = call.data<float>(Op::kPartLogSumExp);
  const int64_t size = rows.head_size;
  for_each(rows.count, rows.count * size, [&](int64_t row) {
    const MergedStatistics at = statistics_of_row(rows, row);
    const float whole = log_sum_exp[at.whole], part = part_log_sum_exp[at.part];
    // a factor is 0 where e^(difference) overflows
    const float taken = 1.0f / (1.0f + expf(whole - part)), kept = 1.0f / (1.0f + expf(part - whole));
    float* const to = output + row * size;
    for (int64_t d = 0; d < size; d += kLanes) {
      const VFloat value = load_up_to(to + d, size - d) * kept + load_up_to(part_output + row * size + d, size - d) * taken;
      store_up_to(to + d, value, size - d);
    }
    log_sum_exp[at.whole] = (part > whole ? part : whole) + log1pf(expf(-fabsf(part - whole)));
  });
  return ok_status();
}

MTL_REGISTER_CPU("merge_attention", run);

}  // namespace
}  // namespace mtl

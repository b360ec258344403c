#include "ops/merge_attention.h"

#include <cmath>

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

Status run(const OpCall& call) {
  using Op = MergeAttention;
  const TensorView &output = call.tensor(Op::kOutput), &part_output = call.tensor(Op::kPartOutput);
  const TensorView &log_sum_exp = call.tensor(Op::kLogSumExp), &part_log_sum_exp = call.tensor(Op::kPartLogSumExp);
  const MergedRows rows = merged_rows_of(call);
  for (int64_t row = 0; row < rows.count; ++row) {
    const MergedStatistics at = statistics_of_row(rows, row);
    const double whole = get(log_sum_exp, at.whole), part = get(part_log_sum_exp, at.part);
    const double taken = 1.0 / (1.0 + std::exp(whole - part)), kept = 1.0 / (1.0 + std::exp(part - whole));
    for (int64_t d = row * rows.head_size; d < (row + 1) * rows.head_size; ++d) {
      set(output, d, kept * get(output, d) + taken * get(part_output, d));
    }
    set(log_sum_exp, at.whole, (part > whole ? part : whole) + std::log1p(std::exp(-std::fabs(part - whole))));
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("merge_attention", run);

}  // namespace
}  // namespace mtl::reference

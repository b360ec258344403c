#include "ops/attention_row_sums.h"

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

Status run(const OpCall& call) {
  using Op = AttentionRowSums;
  const SummedRows rows = summed_rows_of(call);
  for (int64_t row = 0; row < rows.count(); ++row) {
    double sum = 0.0;
    for (int64_t d = row * rows.head_size; d < (row + 1) * rows.head_size; ++d) {
      sum += get(call.tensor(Op::kOutput), d) * get(call.tensor(Op::kOutputGradient), d);
    }
    set(call.tensor(Op::kRowSums), rows.sum_at(row), sum);
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("attention_row_sums", run);

}  // namespace
}  // namespace mtl::reference

#include "ops/expert_bias.h"

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

Status update_expert_bias(const OpCall& call) {
  using Op = UpdateExpertBias;
  const TensorView &bias = call.tensor(Op::kExpertBias), &counts = call.tensor(Op::kCounts);
  int64_t sum = 0;
  for (int64_t e = 0; e < counts.size(); ++e) sum += get_integer(counts, e);
  for (int64_t e = 0; e < counts.size(); ++e) {
    const int64_t times = counts.size() * get_integer(counts, e);
    const double sign = sum > times ? 1.0 : sum < times ? -1.0 : 0.0;
    set(bias, e, get(bias, e) + call.attribute(Op::kRate) * sign);
  }
  return ok_status();
}

Status add_counts(const OpCall& call) {
  using Op = AddCounts;
  const TensorView &counts = call.tensor(Op::kCounts), &offsets = call.tensor(Op::kOffsets);
  for (int64_t e = 0; e < counts.size(); ++e) {
    call.data<int64_t>(Op::kCounts)[e] += get_integer(offsets, e + 1) - get_integer(offsets, e);
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("update_expert_bias", update_expert_bias);
MTL_REGISTER_REFERENCE("add_counts", add_counts);

}  // namespace
}  // namespace mtl::reference

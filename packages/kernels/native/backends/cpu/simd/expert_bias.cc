#include "ops/expert_bias.h"

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

// Runs on one thread and without vectors, because there are only a few experts.
Status update_expert_bias(const OpCall& call) {
  using Op = UpdateExpertBias;
  const int64_t experts = call.tensor(Op::kCounts).size();
  const int64_t* const counts = call.data<int64_t>(Op::kCounts);
  float* const bias = call.data<float>(Op::kExpertBias);
  const double rate = call.attribute(Op::kRate);
  int64_t sum = 0;
  for (int64_t e = 0; e < experts; ++e) sum += counts[e];
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t times = experts * counts[e];
    if (times != sum) bias[e] = static_cast<float>(static_cast<double>(bias[e]) + (sum > times ? rate : -rate));
  }
  return ok_status();
}

Status add_counts(const OpCall& call) {
  using Op = AddCounts;
  int64_t* const counts = call.data<int64_t>(Op::kCounts);
  const int32_t* const offsets = call.data<int32_t>(Op::kOffsets);
  for (int64_t e = 0; e < call.tensor(Op::kCounts).size(); ++e) counts[e] += int64_t{offsets[e + 1]} - offsets[e];
  return ok_status();
}

MTL_REGISTER_CPU("update_expert_bias", update_expert_bias);
MTL_REGISTER_CPU("add_counts", add_counts);

}  // namespace
}  // namespace mtl

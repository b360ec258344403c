#include "ops/expert_groups.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/reference/element.h"
#include "core/index_check.h"

namespace mtl::reference {
namespace {

// Returns the slots that have selected the given expert, in ascending order.
std::vector<int64_t> slots_of(const TensorView& experts, int64_t expert) {
  std::vector<int64_t> slots;
  for (int64_t at = 0; at < experts.size(); ++at) {
    if (get_integer(experts, at) == expert) slots.push_back(at);
  }
  return slots;
}

Status group_by_expert(const OpCall& call) {
  using Op = GroupByExpert;
  const TensorView &offsets = call.tensor(Op::kOffsets), &positions = call.tensor(Op::kPositions),
                   &sources = call.tensor(Op::kSources), &experts = call.tensor(Op::kExperts);
  const int64_t num_experts = offsets.size() - 1;
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kExperts, num_experts, -1));
  for (int64_t at = 0; at < experts.size(); ++at) set(positions, at, -1);
  int64_t row = 0;
  set(offsets, 0, 0);
  for (int64_t expert = 0; expert < num_experts; ++expert) {
    for (const int64_t slot : slots_of(experts, expert)) {
      set(positions, slot, static_cast<double>(row));
      set(sources, row, static_cast<double>(slot));
      ++row;
    }
    set(offsets, expert + 1, static_cast<double>(row));
  }
  for (; row < sources.size(); ++row) set(sources, row, -1);
  return ok_status();
}

Status drop_over_capacity(const OpCall& call) {
  using Op = DropOverCapacity;
  const TensorView &output = call.tensor(Op::kOutput), &experts = call.tensor(Op::kExperts);
  const int64_t num_experts = call.integer(Op::kNumExperts);
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kExperts, num_experts, -1));
  for (int64_t at = 0; at < experts.size(); ++at) set(output, at, -1);
  for (int64_t expert = 0; expert < num_experts; ++expert) {
    std::vector<int64_t> slots = slots_of(experts, expert);
    if (!call.flag(Op::kByPosition)) {
      std::stable_sort(slots.begin(), slots.end(), [&](int64_t left, int64_t right) {
        return get(call.tensor(Op::kProbabilities), left) > get(call.tensor(Op::kProbabilities), right);
      });
    }
    const size_t kept = std::min(slots.size(), static_cast<size_t>(call.integer(Op::kCapacity)));
    for (size_t i = 0; i < kept; ++i) set(output, slots[i], static_cast<double>(expert));
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("group_by_expert", group_by_expert);
MTL_REGISTER_REFERENCE("drop_over_capacity", drop_over_capacity);

}  // namespace
}  // namespace mtl::reference

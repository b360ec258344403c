#include "ops/expert_groups.h"

#include "backends/cpu/simd/simd.h"
#include "core/caching_allocator.h"
#include "core/index_check.h"

namespace mtl {
namespace {

// Sorts slots by expert, stably. `sources` receives the slots, and `offsets` [E + 1] receives where each
// expert's slots start in `sources`. Dropped slots are omitted.
void sort_by_expert(const int32_t* experts, int64_t slots, int32_t* offsets, int64_t num_experts, int32_t* sources) {
  for (int64_t e = 0; e <= num_experts; ++e) offsets[e] = 0;
  for (int64_t at = 0; at < slots; ++at) {
    if (experts[at] >= 0) ++offsets[experts[at] + 1];
  }
  for (int64_t e = 0; e < num_experts; ++e) offsets[e + 1] += offsets[e];
  // this moves each offset to the end of its group, which is the start of the next group
  for (int64_t at = 0; at < slots; ++at) {
    if (experts[at] >= 0) sources[offsets[experts[at]]++] = static_cast<int32_t>(at);
  }
  for (int64_t e = num_experts; e > 0; --e) offsets[e] = offsets[e - 1];
  offsets[0] = 0;
}

// Runs on one thread, because a slot takes at most a nanosecond or two, whereas the next operation moves a
// complete row for each slot.
Status group_by_expert(const OpCall& call) {
  using Op = GroupByExpert;
  const int64_t slots = call.tensor(Op::kExperts).size(), num_experts = call.tensor(Op::kOffsets).size() - 1;
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kExperts, num_experts, -1));
  int32_t *const offsets = call.data<int32_t>(Op::kOffsets), *const positions = call.data<int32_t>(Op::kPositions),
                 *const sources = call.data<int32_t>(Op::kSources);
  const int32_t* const experts = call.data<int32_t>(Op::kExperts);
  sort_by_expert(experts, slots, offsets, num_experts, sources);
  const int64_t rows = offsets[num_experts];
  for (int64_t at = 0; rows < slots && at < slots; ++at) positions[at] = -1;
  for (int64_t row = 0; row < rows; ++row) positions[sources[row]] = static_cast<int32_t>(row);
  for (int64_t row = rows; row < slots; ++row) sources[row] = -1;
  return ok_status();
}

// Compares two slots of the same expert: returns true if the left slot has priority over the right slot.
struct Precedence {
  const float* probabilities;

  bool operator()(int32_t left, int32_t right) const {
    const float a = probabilities[left], b = probabilities[right];
    return a > b || (!(b > a) && left < right);
  }
};

// Moves slot `at` of a heap down to its place. In the heap, a parent has lower priority than its children.
void sift_down(int32_t* heap, int64_t size, int64_t at, const Precedence& is_before) {
  for (int64_t child = 2 * at + 1; child < size; child = 2 * at + 1) {
    if (child + 1 < size && is_before(heap[child], heap[child + 1])) ++child;
    if (!is_before(heap[at], heap[child])) return;
    const int32_t moved = heap[at];
    heap[at] = heap[child];
    heap[child] = moved;
    at = child;
  }
}

// Rearranges an expert's slots so that the `capacity` slots that are kept come first. They form a heap whose
// top is the slot to be replaced next.
void select_kept(int32_t* slots, int64_t size, int64_t capacity, const Precedence& is_before) {
  for (int64_t at = capacity / 2; at >= 0; --at) sift_down(slots, capacity, at, is_before);
  for (int64_t at = capacity; at < size; ++at) {
    if (!is_before(slots[at], slots[0])) continue;
    slots[0] = slots[at];
    sift_down(slots, capacity, 0, is_before);
  }
}

int64_t scratch_slots(const OpCall& call) {
  using Op = DropOverCapacity;
  return call.tensor(Op::kExperts).size() + call.integer(Op::kNumExperts) + 1;
}

Status drop_over_capacity(const OpCall& call) {
  using Op = DropOverCapacity;
  if (call.tensor(Op::kProbabilities).dtype != DType::kFloat32) {
    return error_status("MTL_DTYPE", "%s: float64 is computed on the reference device only", call.op);
  }
  const int64_t slots = call.tensor(Op::kExperts).size(), num_experts = call.integer(Op::kNumExperts),
                capacity = call.integer(Op::kCapacity);
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kExperts, num_experts, -1));
  const Scratch scratch(static_cast<uint64_t>(scratch_slots(call)) * sizeof(int32_t));
  if (scratch.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "%s: no memory to sort slots", call.op);
  int32_t *const sorted = static_cast<int32_t*>(scratch.data), *const offsets = sorted + slots;
  int32_t* const output = call.data<int32_t>(Op::kOutput);
  const int32_t* const experts = call.data<int32_t>(Op::kExperts);
  sort_by_expert(experts, slots, offsets, num_experts, sorted);
  for (int64_t at = 0; at < slots; ++at) output[at] = -1;
  const Precedence is_before = {call.data<float>(Op::kProbabilities)};
  for (int64_t expert = 0; expert < num_experts; ++expert) {
    int32_t* const of_expert = sorted + offsets[expert];
    const int64_t size = offsets[expert + 1] - offsets[expert], kept = smaller(size, capacity);
    if (kept < size && kept > 0 && !call.flag(Op::kByPosition)) select_kept(of_expert, size, kept, is_before);
    for (int64_t i = 0; i < kept; ++i) output[of_expert[i]] = static_cast<int32_t>(expert);
  }
  return ok_status();
}

Status drop_scratch(const OpCall& call, ScratchBlocks* blocks) {
  blocks->add(scratch_slots(call) * static_cast<int64_t>(sizeof(int32_t)));
  return ok_status();
}

MTL_REGISTER_CPU("group_by_expert", group_by_expert);
MTL_REGISTER_CPU("drop_over_capacity", drop_over_capacity, drop_scratch);

}  // namespace
}  // namespace mtl

#include "ops/router.h"

#include "backends/cpu/simd/router_scores.h"
#include "core/caching_allocator.h"
#include "core/index_check.h"

namespace mtl {
namespace {

// A thread's working memory: rows that contain a value for each expert or slot, in complete vectors.
struct Buffers {
  float *logits, *scores, *selection;  // of all experts; `selection`: the scores that select experts
  float *of_slots, *weights;           // of_slots: logits or scores of the slots' experts

  static int64_t floats(const RouterSizes& sizes) { return 3 * padded(sizes.experts) + 2 * padded(sizes.slots); }
  Buffers(float* memory, const RouterSizes& sizes)
      : logits(memory),
        scores(logits + padded(sizes.experts)),
        selection(scores + padded(sizes.experts)),
        of_slots(selection + padded(sizes.experts)),
        weights(of_slots + padded(sizes.slots)) {}
};

int threads_of(const RouterSizes& sizes) { return threads_for(sizes.rows * sizes.experts); }

int64_t scratch_bytes(const RouterSizes& sizes) {
  return threads_of(sizes) * Buffers::floats(sizes) * static_cast<int64_t>(sizeof(float));
}

// Calls body(row, buffers) for every row.
template <typename Body>
Status for_rows(const OpCall& call, const RouterSizes& sizes, const Body& body) {
  const Scratch scratch(static_cast<uint64_t>(scratch_bytes(sizes)));
  if (scratch.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "%s: no memory for the scores of a row", call.op);
  const int threads = threads_of(sizes);
  on_threads(threads, [&](int thread) {
    const Buffers buffers(static_cast<float*>(scratch.data) + thread * Buffers::floats(sizes), sizes);
    const int64_t last = sizes.rows * (thread + 1) / threads;
    for (int64_t row = sizes.rows * thread / threads; row < last; ++row) body(row, buffers);
  });
  return ok_status();
}

// A value and its index, for a list in descending order. If values are equal, the lower index comes first.
struct Ranked {
  float value;
  int64_t at;

  static Ranked start() { return {__builtin_inff(), -1}; }
};

// Returns the value that follows `before` in descending order. No value may be NaN.
MTL_INLINE Ranked next_of(const float* values, int64_t count, const Ranked& before) {
  Ranked best = {0.0f, -1};
  for (int64_t i = 0; i < count; ++i) {
    const float value = values[i];
    const bool is_behind = value < before.value || (value == before.value && i > before.at);
    if (is_behind && (best.at < 0 || value > best.value)) best = {value, i};
  }
  return best;
}

struct Groups {
  int64_t count, kept;  // count 0: none
};

// Sets the scores of all experts in dropped groups to -infinity. `sums` has room for one value per group.
MTL_INLINE void keep_groups(float* selection, const RouterSizes& sizes, const Groups& groups, float* sums) {
  const int64_t length = sizes.experts / groups.count, largest_of_group = smaller(sizes.slots / groups.kept, length);
  for (int64_t group = 0; group < groups.count; ++group) {
    Ranked member = Ranked::start();
    sums[group] = 0.0f;
    for (int64_t i = 0; i < largest_of_group; ++i) {
      member = next_of(selection + group * length, length, member);
      sums[group] += member.value;
    }
    if (sums[group] != sums[group]) sums[group] = __builtin_inff();
  }
  Ranked last_kept = Ranked::start();
  for (int64_t i = 0; i < groups.kept; ++i) last_kept = next_of(sums, groups.count, last_kept);
  for (int64_t group = 0; group < groups.count; ++group) {
    const bool is_kept = sums[group] > last_kept.value || (sums[group] == last_kept.value && group <= last_kept.at);
    for (int64_t e = group * length; !is_kept && e < (group + 1) * length; ++e) selection[e] = -__builtin_inff();
  }
}

// Computes the scores of all experts. If the softmax is over the selected experts only, the scores are the
// logits.
template <ScoreFunction kFunction>
MTL_INLINE void compute_scores(const Buffers& row, int64_t experts, bool is_over_all) {
  if constexpr (kFunction == ScoreFunction::kSoftmax) {
    const Softmax softmax = is_over_all ? softmax_of(row.logits, experts) : Softmax{};
    for (int64_t e = 0; e < experts; e += kLanes) {
      const VFloat logits = load(row.logits + e);
      store(row.scores + e, is_over_all ? softmax.at(logits) : logits);
    }
  } else {
    for (int64_t e = 0; e < experts; e += kLanes) store(row.scores + e, score<kFunction>(load(row.logits + e)));
  }
}

MTL_INLINE void select_experts(int32_t* experts, const Buffers& row, const float* bias, const RouterSizes& sizes,
                               const Groups& groups) {
  for (int64_t e = 0; e < sizes.experts; e += kLanes) {
    VFloat score = load(row.scores + e);
    if (bias != nullptr) score += load_up_to(bias + e, sizes.experts - e);
    store(row.selection + e, select(score == score, score, infinity()));
  }
  // the groups' sums overwrite the logits, which are no longer needed; there are at most `experts` groups
  if (groups.count > 0) keep_groups(row.selection, sizes, groups, row.logits);
  select_largest(experts, row.of_slots, sizes.slots, row.selection, sizes.experts);
}

// Converts the scores of the slots, `of_slots`, to `weights`. The scores must be padded with zeros (for a
// softmax, with -infinity). Returns the sum by which the scores were divided, or 1 if they were not divided.
template <ScoreFunction kFunction>
MTL_INLINE float weigh(const Buffers& row, int64_t slots, bool is_over_all) {
  if (kFunction == ScoreFunction::kSoftmax && !is_over_all) {
    const Softmax softmax = softmax_of(row.of_slots, slots);
    for (int64_t slot = 0; slot < slots; slot += kLanes) store(row.weights + slot, softmax.at(load(row.of_slots + slot)));
    return softmax.sum;
  }
  VFloat total = {};
  for (int64_t slot = 0; slot < slots; slot += kLanes) total += load(row.of_slots + slot);
  const float divisor = kFunction == ScoreFunction::kSoftmax || slots == 1 ? 1.0f : sum(total) + kSmallestSum;
  for (int64_t slot = 0; slot < slots; slot += kLanes) store(row.weights + slot, load(row.of_slots + slot) / divisor);
  return divisor;
}

// Writes the values of the slots' experts to a row of slots. The row is padded with `rest`.
MTL_INLINE void gather(float* of_slots, const float* values, const int32_t* experts, int64_t slots, float rest) {
  for (int64_t slot = 0; slot < padded(slots); ++slot) of_slots[slot] = slot < slots ? values[experts[slot]] : rest;
}

template <ScoreFunction kFunction>
Status forward_with(const OpCall& call) {
  using Op = RouterForward;
  const RouterSizes sizes = router_sizes(call, Op::kLogits, Op::kProbabilities);
  const Groups groups = {call.integer(Op::kNumGroups), call.integer(Op::kGroupTopK)};
  const bool is_over_all = kFunction == ScoreFunction::kSoftmax && call.flag(Op::kPreSoftmax);
  const float factor = static_cast<float>(call.attribute(Op::kScalingFactor));
  const float *const logits = call.data<float>(Op::kLogits), *const bias = call.data<float>(Op::kExpertBias);
  const int32_t* const chosen = call.data<int32_t>(Op::kChosen);
  float* const probabilities = call.data<float>(Op::kProbabilities);
  int32_t* const experts = call.data<int32_t>(Op::kExperts);
  const float rest = kFunction == ScoreFunction::kSoftmax && !is_over_all ? -__builtin_inff() : 0.0f;
  return for_rows(call, sizes, [&](int64_t index, const Buffers& row) {
    int32_t* const of_row = experts + index * sizes.slots;
    load_logits(row.logits, logits + index * sizes.experts, sizes.experts);
    compute_scores<kFunction>(row, sizes.experts, is_over_all);
    if (chosen == nullptr) {
      select_experts(of_row, row, bias, sizes, groups);
    } else {
      for (int64_t slot = 0; slot < sizes.slots; ++slot) of_row[slot] = chosen[index * sizes.slots + slot];
    }
    gather(row.of_slots, row.scores, of_row, sizes.slots, rest);
    weigh<kFunction>(row, sizes.slots, is_over_all);
    for (int64_t slot = 0; slot < sizes.slots; slot += kLanes) {
      store_up_to(probabilities + index * sizes.slots + slot, load(row.weights + slot) * factor, sizes.slots - slot);
    }
  });
}

// Computes the gradients of a row's logits. `row.selection` contains the gradients of the row's weights.
template <ScoreFunction kFunction>
MTL_INLINE void differentiate(float* output, const Buffers& row, const int32_t* experts, const RouterSizes& sizes,
                              bool is_over_all) {
  const int64_t slots = sizes.slots;
  const float* const gradients = row.selection;
  const float divisor = weigh<kFunction>(row, slots, is_over_all);
  float mean = 0.0f;
  for (int64_t slot = 0; slot < slots; ++slot) mean += row.weights[slot] * gradients[slot];
  for (int64_t e = 0; e < sizes.experts; e += kLanes) {
    store_up_to(output + e, is_over_all ? load(row.scores + e) * -mean : VFloat{}, sizes.experts - e);
  }
  if constexpr (kFunction == ScoreFunction::kSoftmax) {
    for (int64_t slot = 0; slot < slots; ++slot) {
      output[experts[slot]] += row.weights[slot] * (gradients[slot] - (is_over_all ? 0.0f : mean));
    }
  } else {
    gather(row.of_slots, row.logits, experts, slots, 0.0f);
    for (int64_t slot = 0; slot < slots; slot += kLanes) {
      store(row.weights + slot, slope<kFunction>(load(row.of_slots + slot)));
    }
    for (int64_t slot = 0; slot < slots; ++slot) {
      const float of_score = slots > 1 ? (gradients[slot] - mean) / divisor : gradients[slot];
      output[experts[slot]] += of_score * row.weights[slot];
    }
  }
}

template <ScoreFunction kFunction>
Status backward_with(const OpCall& call) {
  using Op = RouterBackward;
  const RouterSizes sizes = router_sizes(call, Op::kLogits, Op::kProbabilitiesGradient);
  const bool is_over_all = kFunction == ScoreFunction::kSoftmax && call.flag(Op::kPreSoftmax);
  const float factor = static_cast<float>(call.attribute(Op::kScalingFactor));
  const float *const logits = call.data<float>(Op::kLogits), *const gradient = call.data<float>(Op::kProbabilitiesGradient);
  const int32_t* const experts = call.data<int32_t>(Op::kExperts);
  float* const output = call.data<float>(Op::kLogitsGradient);
  const float rest = kFunction == ScoreFunction::kSoftmax && !is_over_all ? -__builtin_inff() : 0.0f;
  return for_rows(call, sizes, [&](int64_t index, const Buffers& row) {
    const int32_t* const of_row = experts + index * sizes.slots;
    load_logits(row.logits, logits + index * sizes.experts, sizes.experts);
    compute_scores<kFunction>(row, sizes.experts, is_over_all);
    gather(row.of_slots, row.scores, of_row, sizes.slots, rest);
    for (int64_t slot = 0; slot < sizes.slots; ++slot) {
      row.selection[slot] = gradient[index * sizes.slots + slot] * factor;
    }
    differentiate<kFunction>(output + index * sizes.experts, row, of_row, sizes, is_over_all);
  });
}

Status forward(const OpCall& call) {
  using Op = RouterForward;
  MTL_RETURN_IF_ERROR(expect_float32(call, Op::kLogits));
  if (call.has(Op::kChosen)) MTL_RETURN_IF_ERROR(expect_indices(call, Op::kChosen, call.tensor(Op::kLogits).dim(-1)));
  return for_score_function(static_cast<ScoreFunction>(call.integer(Op::kScoreFunction)), [&](auto* kind) {
    using Kind = __typeof__(*kind);
    return forward_with<Kind::kFunction>(call);
  });
}

Status backward(const OpCall& call) {
  using Op = RouterBackward;
  MTL_RETURN_IF_ERROR(expect_float32(call, Op::kLogits));
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kExperts, call.tensor(Op::kLogits).dim(-1)));
  return for_score_function(static_cast<ScoreFunction>(call.integer(Op::kScoreFunction)), [&](auto* kind) {
    using Kind = __typeof__(*kind);
    return backward_with<Kind::kFunction>(call);
  });
}

Status forward_scratch(const OpCall& call, ScratchBlocks* blocks) {
  using Op = RouterForward;
  blocks->add(scratch_bytes(router_sizes(call, Op::kLogits, Op::kProbabilities)));
  return ok_status();
}

Status backward_scratch(const OpCall& call, ScratchBlocks* blocks) {
  using Op = RouterBackward;
  blocks->add(scratch_bytes(router_sizes(call, Op::kLogits, Op::kProbabilitiesGradient)));
  return ok_status();
}

MTL_REGISTER_CPU("router_forward", forward, forward_scratch);
MTL_REGISTER_CPU("router_backward", backward, backward_scratch);

}  // namespace
}  // namespace mtl

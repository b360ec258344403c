#include "ops/router.h"

#include <algorithm>

#include "backends/cpu/reference/router_scores.h"
#include "core/index_check.h"

namespace mtl::reference {
namespace {

// Returns the scores by which a row's experts are selected.
Values selection_scores(const OpCall& call, const Values& logits) {
  using Op = RouterForward;
  const auto function = static_cast<ScoreFunction>(call.integer(Op::kScoreFunction));
  Values scores = logits;
  if (function != ScoreFunction::kSoftmax) {
    for (double& each : scores) each = score(function, each);
  } else if (call.flag(Op::kPreSoftmax)) {
    scores = softmax(logits);
  }
  for (size_t e = 0; call.has(Op::kExpertBias) && e < scores.size(); ++e) {
    scores[e] += get(call.tensor(Op::kExpertBias), static_cast<int64_t>(e));
  }
  return scores;
}

// Sets to -infinity the scores of all experts whose groups are not kept.
void keep_groups(const OpCall& call, Values* scores, int64_t slots) {
  using Op = RouterForward;
  const int64_t groups = call.integer(Op::kNumGroups), kept = call.integer(Op::kGroupTopK);
  if (groups == 0) return;
  const size_t length = scores->size() / static_cast<size_t>(groups);
  Values sums;
  for (int64_t group = 0; group < groups; ++group) {
    const auto first = scores->begin() + static_cast<int64_t>(length) * group;
    const Values members(first, first + static_cast<int64_t>(length));
    const int64_t count = std::min(slots / kept, static_cast<int64_t>(length));
    double sum = 0.0;
    for (const size_t member : largest(members, count)) sum += members[member];
    sums.push_back(sum);
  }
  std::vector<bool> is_kept(sums.size());
  for (const size_t group : largest(sums, kept)) is_kept[group] = true;
  for (size_t e = 0; e < scores->size(); ++e) {
    if (!is_kept[e / length]) (*scores)[e] = -std::numeric_limits<double>::infinity();
  }
}

// Returns the weights of a row's experts before they are multiplied by the scaling factor.
template <typename Op>
Values weights(const OpCall& call, const Values& logits, const std::vector<size_t>& experts) {
  const auto function = static_cast<ScoreFunction>(call.integer(Op::kScoreFunction));
  Values result;
  if (function == ScoreFunction::kSoftmax) {
    const Values all = softmax(logits);
    for (const size_t e : experts) result.push_back(call.flag(Op::kPreSoftmax) ? all[e] : logits[e]);
    return call.flag(Op::kPreSoftmax) ? result : softmax(result);
  }
  double sum = kSmallestSum;
  for (const size_t e : experts) result.push_back(score(function, logits[e]));
  for (const double each : result) sum += each;
  for (double& each : result) each /= experts.size() > 1 ? sum : 1.0;
  return result;
}

std::vector<size_t> experts_of(const TensorView& tensor, int64_t row, int64_t slots) {
  std::vector<size_t> experts;
  for (int64_t slot = 0; slot < slots; ++slot) {
    experts.push_back(static_cast<size_t>(get_integer(tensor, row * slots + slot)));
  }
  return experts;
}

Status forward(const OpCall& call) {
  using Op = RouterForward;
  const RouterSizes sizes = router_sizes(call, Op::kLogits, Op::kProbabilities);
  if (call.has(Op::kChosen)) MTL_RETURN_IF_ERROR(expect_indices(call, Op::kChosen, sizes.experts));
  for (int64_t row = 0; row < sizes.rows; ++row) {
    const Values logits = row_of(call.tensor(Op::kLogits), row, sizes.experts);
    Values scores = selection_scores(call, logits);
    keep_groups(call, &scores, sizes.slots);
    const std::vector<size_t> experts = call.has(Op::kChosen) ? experts_of(call.tensor(Op::kChosen), row, sizes.slots)
                                                              : largest(scores, sizes.slots);
    const Values result = weights<Op>(call, logits, experts);
    for (int64_t slot = 0; slot < sizes.slots; ++slot) {
      const size_t at = static_cast<size_t>(slot);
      set(call.tensor(Op::kProbabilities), row * sizes.slots + slot, result[at] * call.attribute(Op::kScalingFactor));
      set(call.tensor(Op::kExperts), row * sizes.slots + slot, static_cast<double>(experts[at]));
    }
  }
  return ok_status();
}

// Returns the gradients of all logits in a row. `gradient` contains the gradients of the row's weights.
Values logit_gradients(const OpCall& call, const Values& logits, const std::vector<size_t>& experts, const Values& gradient) {
  using Op = RouterBackward;
  const auto function = static_cast<ScoreFunction>(call.integer(Op::kScoreFunction));
  const Values of_slots = weights<Op>(call, logits, experts);
  double mean = 0.0;
  for (size_t slot = 0; slot < experts.size(); ++slot) mean += of_slots[slot] * gradient[slot];
  Values result(logits.size());
  if (function == ScoreFunction::kSoftmax) {
    const Values all = softmax(logits);
    for (size_t e = 0; call.flag(Op::kPreSoftmax) && e < result.size(); ++e) result[e] = -all[e] * mean;
    for (size_t slot = 0; slot < experts.size(); ++slot) {
      result[experts[slot]] += of_slots[slot] * (gradient[slot] - (call.flag(Op::kPreSoftmax) ? 0.0 : mean));
    }
    return result;
  }
  double sum = kSmallestSum;
  for (const size_t e : experts) sum += score(function, logits[e]);
  for (size_t slot = 0; slot < experts.size(); ++slot) {
    const double score_gradient = experts.size() > 1 ? (gradient[slot] - mean) / sum : gradient[slot];
    result[experts[slot]] += score_gradient * slope(function, logits[experts[slot]]);
  }
  return result;
}

Status backward(const OpCall& call) {
  using Op = RouterBackward;
  const RouterSizes sizes = router_sizes(call, Op::kLogits, Op::kProbabilitiesGradient);
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kExperts, sizes.experts));
  for (int64_t row = 0; row < sizes.rows; ++row) {
    Values gradient = row_of(call.tensor(Op::kProbabilitiesGradient), row, sizes.slots);
    for (double& each : gradient) each *= call.attribute(Op::kScalingFactor);
    const Values result = logit_gradients(call, row_of(call.tensor(Op::kLogits), row, sizes.experts),
                                          experts_of(call.tensor(Op::kExperts), row, sizes.slots), gradient);
    for (int64_t e = 0; e < sizes.experts; ++e) {
      set(call.tensor(Op::kLogitsGradient), row * sizes.experts + e, result[static_cast<size_t>(e)]);
    }
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("router_forward", forward);
MTL_REGISTER_REFERENCE("router_backward", backward);

}  // namespace
}  // namespace mtl::reference

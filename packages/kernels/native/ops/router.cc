// router_forward: experts[t] = the k experts of row t with the largest selection scores, in descending order;
//                 probabilities[t] = their weights
// router_backward: logitsGradient from probabilitiesGradient
//
//   logits, logitsGradient [..., E] float32 (float64), T rows   probabilities, probabilitiesGradient [T, k]
//   of the logits' dtype
//   experts [T, k] int32   expertBias? [E] float32 (or of the logits' dtype)
//   chosen? [T, k] int32: the experts; replaces the selection
//   scoreFunction: 0 softmax, 1 sigmoid, 2 sqrt(softplus)
//   preSoftmax: the softmax is over all experts (else over the selected experts); softmax only
//   scalingFactor: multiplies all probabilities
//   numGroups: 0, or the number of groups of equal size. A row uses the groupTopK groups with the largest
//              sums of their k / groupTopK largest selection scores; experts outside of these groups are not
//              selected
//
// The selection score of an expert is its logit (softmax), its probability (preSoftmax), or its score, plus
// its bias, which affects only the selection. If scores are equal, the expert with the lower index comes
// first. NaN counts as the largest score, so that it shows in the loss. If k is more than 1, the
// probabilities of sigmoid and sqrt(softplus) are divided by their sum + 1e-20 (DeepSeek-AI 2024, arXiv
// 2412.19437; Shazeer et al. 2017, arXiv 1701.06538).
#include "ops/router.h"

#include <cmath>

#include "core/validation.h"

namespace mtl {

Status expect_score_function(const OpCall& call, int attribute) {
  const double value = call.attribute(attribute);
  for (int kind = 0; kind < kNumScoreFunctions; ++kind) {
    if (value == kind) return ok_status();
  }
  return argument_error(call, "scoreFunction is %g, expected 0 (softmax), 1 (sigmoid) or 2 (sqrt of softplus)", value);
}

namespace {

// Checks that `slots` is [T, k] and has the logits' dtype, with k from 1 to the number of experts.
Status validate(const OpCall& call, int logits, int slots) {
  MTL_RETURN_IF_ERROR(expect_rank(call, logits, 2, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_dtype(call, logits, {DType::kFloat32, DType::kFloat64}));
  MTL_RETURN_IF_ERROR(expect_rank(call, slots, 2, 2));
  const TensorView &of_logits = call.tensor(logits), &of_slots = call.tensor(slots);
  MTL_RETURN_IF_ERROR(expect_shape(call, slots, {of_logits.rows(), of_slots.dim(1)}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, slots, {of_logits.dtype}));
  if (of_slots.dim(1) >= 1 && of_slots.dim(1) <= of_logits.dim(-1)) return ok_status();
  return argument_error(call, "%lld experts a row, expected 1 to %lld, the number of experts",
                        static_cast<long long>(of_slots.dim(1)), static_cast<long long>(of_logits.dim(-1)));
}

Status expect_slots(const OpCall& call, int tensor, int like) {
  MTL_RETURN_IF_ERROR(expect_same_shape(call, tensor, like));
  return expect_dtype(call, tensor, {DType::kInt32});
}

Status validate_scores(const OpCall& call, int score_function, int pre_softmax, int scaling_factor) {
  MTL_RETURN_IF_ERROR(expect_score_function(call, score_function));
  if (call.flag(pre_softmax) && call.integer(score_function) != static_cast<int>(ScoreFunction::kSoftmax)) {
    return argument_error(call, "preSoftmax with another score function, expected softmax");
  }
  if (std::isfinite(call.attribute(scaling_factor)) && call.attribute(scaling_factor) > 0) return ok_status();
  return argument_error(call, "scalingFactor is %g, expected a number above 0", call.attribute(scaling_factor));
}

Status validate_groups(const OpCall& call) {
  using Op = RouterForward;
  const RouterSizes sizes = router_sizes(call, Op::kLogits, Op::kProbabilities);
  const double groups = call.attribute(Op::kNumGroups), kept = call.attribute(Op::kGroupTopK);
  if (groups == 0) return ok_status();
  const int64_t whole_groups = call.integer(Op::kNumGroups), whole_kept = call.integer(Op::kGroupTopK);
  if (groups < 1 || groups > static_cast<double>(sizes.experts) || static_cast<double>(whole_groups) != groups ||
      sizes.experts % whole_groups != 0) {
    return argument_error(call, "numGroups is %g, expected 0 or a divisor of %lld, the number of experts", groups,
                          static_cast<long long>(sizes.experts));
  }
  if (kept < 1 || kept > groups || static_cast<double>(whole_kept) != kept || whole_kept > sizes.slots ||
      sizes.slots > whole_kept * (sizes.experts / whole_groups)) {
    return argument_error(call, "groupTopK is %g, expected a number of groups, 1 to %g, that hold the %lld experts of a row, "
                          "and no more groups than experts of a row", kept, groups, static_cast<long long>(sizes.slots));
  }
  return ok_status();
}

Status validate_forward(const OpCall& call) {
  using Op = RouterForward;
  MTL_RETURN_IF_ERROR(validate(call, Op::kLogits, Op::kProbabilities));
  MTL_RETURN_IF_ERROR(expect_slots(call, Op::kExperts, Op::kProbabilities));
  if (call.has(Op::kExpertBias)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kExpertBias, {call.tensor(Op::kLogits).dim(-1)}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kExpertBias, {DType::kFloat32, call.tensor(Op::kLogits).dtype}));
  }
  if (call.has(Op::kChosen)) MTL_RETURN_IF_ERROR(expect_slots(call, Op::kChosen, Op::kProbabilities));
  MTL_RETURN_IF_ERROR(validate_scores(call, Op::kScoreFunction, Op::kPreSoftmax, Op::kScalingFactor));
  return validate_groups(call);
}

Status validate_backward(const OpCall& call) {
  using Op = RouterBackward;
  MTL_RETURN_IF_ERROR(validate(call, Op::kLogits, Op::kProbabilitiesGradient));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kLogitsGradient, Op::kLogits));
  MTL_RETURN_IF_ERROR(expect_slots(call, Op::kExperts, Op::kProbabilitiesGradient));
  return validate_scores(call, Op::kScoreFunction, Op::kPreSoftmax, Op::kScalingFactor);
}

MTL_REGISTER_OP(OpSchema{"router_forward",
                         2,
                         {"probabilities", "experts", "logits", "expertBias?", "chosen?"},
                         {"scoreFunction", "preSoftmax", "scalingFactor", "numGroups", "groupTopK"},
                         validate_forward,
                         nullptr});
MTL_REGISTER_OP(OpSchema{"router_backward",
                         1,
                         {"logitsGradient", "probabilitiesGradient", "logits", "experts"},
                         {"scoreFunction", "preSoftmax", "scalingFactor"},
                         validate_backward,
                         nullptr});

}  // namespace
}  // namespace mtl

// router_statistics_forward: sums over the rows of each sequence, for a router's losses
// router_statistics_backward: logitsGradient from the gradients of scoreSums and squaredLogSumExp
//
//   logits, logitsGradient [..., E] float32 (float64), T rows; row t belongs to sequence t % numSequences
//   rowWeights? [T] float32: a row whose weight is 0 is padding and does not count; all other rows count
//   once
//   counts            [N, E] of the logits' dtype: how often an expert is among the topK largest scores (if
//                     scores are equal, the lower expert index)
//   scoreSums         [N, E] of the logits' dtype: sums of scores; scoreGradients? is its gradient
//   squaredLogSumExp  [N] of the logits' dtype: sums of ln(sum over experts of e^logit)^2; squareGradients?
//                     is its gradient
//   entropy           [N] of the logits' dtype: sums of the entropies of scores, in nats
//   scoreFunction: as in router_forward; scores of sigmoid and sqrt(softplus) are divided by (sum + 1e-20)
//
// The scores depend neither on a bias nor on groups (Fedus et al. 2021, arXiv 2101.03961; DeepSeek-AI 2024,
// arXiv 2412.19437; for the squares: Zoph et al. 2022, arXiv 2202.08906). Sums are computed in double, in an
// order that does not depend on the number of threads.
#include "ops/router_statistics.h"

#include "core/validation.h"
#include "ops/router.h"

namespace mtl {
namespace {

Status validate(const OpCall& call, int logits, int row_weights, int score_function, int num_sequences) {
  MTL_RETURN_IF_ERROR(expect_rank(call, logits, 2, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_dtype(call, logits, {DType::kFloat32, DType::kFloat64}));
  if (call.has(row_weights)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, row_weights, {call.tensor(logits).rows()}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, row_weights, {DType::kFloat32, call.tensor(logits).dtype}));
  }
  MTL_RETURN_IF_ERROR(expect_score_function(call, score_function));
  const double sequences = call.attribute(num_sequences);
  if (!(sequences >= 1 && sequences < 2147483648.0) || static_cast<double>(call.integer(num_sequences)) != sequences) {
    return argument_error(call, "numSequences is %g, expected a whole number from 1", sequences);
  }
  return ok_status();
}

Status expect_of_sequences(const OpCall& call, int tensor, int logits, int num_sequences, bool is_of_experts) {
  MTL_RETURN_IF_ERROR(is_of_experts
                          ? expect_shape(call, tensor, {call.integer(num_sequences), call.tensor(logits).dim(-1)})
                          : expect_shape(call, tensor, {call.integer(num_sequences)}));
  return expect_dtype(call, tensor, {call.tensor(logits).dtype});
}

Status validate_forward(const OpCall& call) {
  using Op = RouterStatisticsForward;
  MTL_RETURN_IF_ERROR(validate(call, Op::kLogits, Op::kRowWeights, Op::kScoreFunction, Op::kNumSequences));
  const int64_t experts = call.tensor(Op::kLogits).dim(-1);
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kCounts, {call.integer(Op::kNumSequences), experts}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kCounts, {call.tensor(Op::kLogits).dtype}));
  MTL_RETURN_IF_ERROR(expect_of_sequences(call, Op::kScoreSums, Op::kLogits, Op::kNumSequences, true));
  MTL_RETURN_IF_ERROR(expect_of_sequences(call, Op::kSquaredLogSumExp, Op::kLogits, Op::kNumSequences, false));
  MTL_RETURN_IF_ERROR(expect_of_sequences(call, Op::kEntropy, Op::kLogits, Op::kNumSequences, false));
  const double top_k = call.attribute(Op::kTopK);
  if (top_k >= 1 && top_k <= static_cast<double>(experts) && static_cast<double>(call.integer(Op::kTopK)) == top_k) {
    return ok_status();
  }
  return argument_error(call, "topK is %g, expected 1 to %lld, the number of experts", top_k, static_cast<long long>(experts));
}

Status validate_backward(const OpCall& call) {
  using Op = RouterStatisticsBackward;
  MTL_RETURN_IF_ERROR(validate(call, Op::kLogits, Op::kRowWeights, Op::kScoreFunction, Op::kNumSequences));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kLogitsGradient, Op::kLogits));
  if (call.has(Op::kScoreGradients)) {
    MTL_RETURN_IF_ERROR(expect_of_sequences(call, Op::kScoreGradients, Op::kLogits, Op::kNumSequences, true));
  }
  if (!call.has(Op::kSquareGradients)) return ok_status();
  return expect_of_sequences(call, Op::kSquareGradients, Op::kLogits, Op::kNumSequences, false);
}

MTL_REGISTER_OP(OpSchema{"router_statistics_forward",
                         4,
                         {"counts", "scoreSums", "squaredLogSumExp", "entropy", "logits", "rowWeights?"},
                         {"topK", "scoreFunction", "numSequences"},
                         validate_forward,
                         nullptr});
MTL_REGISTER_OP(OpSchema{"router_statistics_backward",
                         1,
                         {"logitsGradient", "scoreGradients?", "squareGradients?", "logits", "rowWeights?"},
                         {"scoreFunction", "numSequences"},
                         validate_backward,
                         nullptr});

}  // namespace
}  // namespace mtl

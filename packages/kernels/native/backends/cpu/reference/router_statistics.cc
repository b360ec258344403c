#include "ops/router_statistics.h"

#include "backends/cpu/reference/router_scores.h"

namespace mtl::reference {
namespace {

// Returns a row's scores, normalized so that they sum to 1.
Values normalized_scores(ScoreFunction function, const Values& logits) {
  if (function == ScoreFunction::kSoftmax) return softmax(logits);
  Values scores;
  double sum = kSmallestSum;
  for (const double logit : logits) scores.push_back(score(function, logit));
  for (const double each : scores) sum += each;
  for (double& each : scores) each /= sum;
  return scores;
}

double log_sum_exp(const Values& logits) {
  const double maximum = maximum_of(logits);
  double sum = 0.0;
  for (const double logit : logits) sum += std::exp(logit - maximum);
  return maximum + std::log(sum);
}

template <typename Op>
bool counts(const OpCall& call, int64_t row) {
  return !call.has(Op::kRowWeights) || get(call.tensor(Op::kRowWeights), row) != 0.0;
}

Status forward(const OpCall& call) {
  using Op = RouterStatisticsForward;
  const TensorView& of_logits = call.tensor(Op::kLogits);
  const auto function = static_cast<ScoreFunction>(call.integer(Op::kScoreFunction));
  const int64_t experts = of_logits.dim(-1), sequences = call.integer(Op::kNumSequences);
  Values counted(static_cast<size_t>(sequences * experts)), sums(counted.size()), squares(static_cast<size_t>(sequences)),
      entropies(squares.size());
  for (int64_t row = 0; row < of_logits.rows(); ++row) {
    if (!counts<Op>(call, row)) continue;
    const Values logits = row_of(of_logits, row, experts), scores = normalized_scores(function, logits);
    const size_t sequence = static_cast<size_t>(row % sequences), first = sequence * static_cast<size_t>(experts);
    for (const size_t expert : largest(scores, call.integer(Op::kTopK))) counted[first + expert] += 1.0;
    for (size_t e = 0; e < scores.size(); ++e) {
      sums[first + e] += scores[e];
      entropies[sequence] -= scores[e] == 0.0 ? 0.0 : scores[e] * std::log(scores[e]);
    }
    squares[sequence] += std::pow(log_sum_exp(logits), 2.0);
  }
  for (size_t at = 0; at < sums.size(); ++at) {
    set(call.tensor(Op::kCounts), static_cast<int64_t>(at), counted[at]);
    set(call.tensor(Op::kScoreSums), static_cast<int64_t>(at), sums[at]);
  }
  for (size_t at = 0; at < squares.size(); ++at) {
    set(call.tensor(Op::kSquaredLogSumExp), static_cast<int64_t>(at), squares[at]);
    set(call.tensor(Op::kEntropy), static_cast<int64_t>(at), entropies[at]);
  }
  return ok_status();
}

// Returns the gradients of a row's logits. `gradient` contains the gradients of the row's scores.
Values through_scores(ScoreFunction function, const Values& logits, const Values& gradient) {
  const Values scores = normalized_scores(function, logits);
  double mean = 0.0, sum = kSmallestSum;
  for (size_t e = 0; e < scores.size(); ++e) mean += gradient[e] * scores[e];
  for (const double logit : logits) sum += function == ScoreFunction::kSoftmax ? 0.0 : score(function, logit);
  Values result;
  for (size_t e = 0; e < scores.size(); ++e) {
    result.push_back((gradient[e] - mean) *
                     (function == ScoreFunction::kSoftmax ? scores[e] : slope(function, logits[e]) / sum));
  }
  return result;
}

Status backward(const OpCall& call) {
  using Op = RouterStatisticsBackward;
  const TensorView& of_logits = call.tensor(Op::kLogits);
  const auto function = static_cast<ScoreFunction>(call.integer(Op::kScoreFunction));
  const int64_t experts = of_logits.dim(-1), sequences = call.integer(Op::kNumSequences);
  for (int64_t row = 0; row < of_logits.rows(); ++row) {
    const Values logits = row_of(of_logits, row, experts);
    Values result(logits.size());
    if (counts<Op>(call, row)) {
      if (call.has(Op::kScoreGradients)) {
        result = through_scores(function, logits, row_of(call.tensor(Op::kScoreGradients), row % sequences, experts));
      }
      if (call.has(Op::kSquareGradients)) {
        const double factor = get(call.tensor(Op::kSquareGradients), row % sequences) * 2.0 * log_sum_exp(logits);
        const Values probabilities = softmax(logits);
        for (size_t e = 0; e < result.size(); ++e) result[e] += factor * probabilities[e];
      }
    }
    for (int64_t e = 0; e < experts; ++e) {
      set(call.tensor(Op::kLogitsGradient), row * experts + e, result[static_cast<size_t>(e)]);
    }
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("router_statistics_forward", forward);
MTL_REGISTER_REFERENCE("router_statistics_backward", backward);

}  // namespace
}  // namespace mtl::reference

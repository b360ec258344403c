// Scores of experts, computed in double from a row's logits.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/reference/element.h"
#include "ops/router.h"

namespace mtl::reference {

constexpr double kSmallestSum = 1e-20;  // added to sums of scores

using Values = std::vector<double>;

inline Values row_of(const TensorView& tensor, int64_t row, int64_t length) {
  Values values(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) values[static_cast<size_t>(i)] = get(tensor, row * length + i);
  return values;
}

inline double maximum_of(const Values& values) {
  double maximum = -std::numeric_limits<double>::infinity();
  for (const double value : values) maximum = std::fmax(maximum, value);
  return maximum;
}

inline Values softmax(const Values& logits) {
  const double maximum = maximum_of(logits);
  double sum = 0.0;
  Values result;
  for (const double logit : logits) result.push_back(std::exp(logit - maximum));
  for (const double each : result) sum += each;
  for (double& each : result) each /= sum;
  return result;
}

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

// Returns the score of a logit: its sigmoid or sqrt(softplus).
inline double score(ScoreFunction function, double logit) {
  return function == ScoreFunction::kSigmoid ? sigmoid(logit) : std::sqrt(softplus(logit));
}

// Returns the derivative of a score with respect to its logit.
inline double slope(ScoreFunction function, double logit) {
  const double s = score(function, logit);
  if (function == ScoreFunction::kSigmoid) return s * (1.0 - s);
  return s == 0.0 ? 0.0 : sigmoid(logit) / (2.0 * s);
}

// Returns the value by which a score is sorted. NaN counts as the largest value.
inline double ordered(double value) { return std::isnan(value) ? std::numeric_limits<double>::infinity() : value; }

// Returns the indices of the `count` largest values, in descending order of the values. If values are equal,
// the lower index comes first.
inline std::vector<size_t> largest(const Values& values, int64_t count) {
  std::vector<size_t> result;
  std::vector<bool> is_taken(values.size());
  while (static_cast<int64_t>(result.size()) < count) {
    size_t best = values.size();
    for (size_t i = 0; i < values.size(); ++i) {
      if (!is_taken[i] && (best == values.size() || ordered(values[i]) > ordered(values[best]))) best = i;
    }
    is_taken[best] = true;
    result.push_back(best);
  }
  return result;
}

}  // namespace mtl::reference

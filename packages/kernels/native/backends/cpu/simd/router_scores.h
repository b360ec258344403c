// Scores of experts, computed from a row's logits. Rows consist of complete vectors: logits after the last
// expert are -infinity, and their scores are 0.
#pragma once

#include "backends/cpu/simd/attention_math.h"
#include "ops/router.h"

namespace mtl {
namespace {

constexpr float kSmallestSum = 1e-20f;  // added to sums of scores

MTL_INLINE int64_t padded(int64_t length) { return round_up(length, kLanes); }

MTL_INLINE VFloat infinity() { return splat(__builtin_inff()); }

MTL_INLINE void load_logits(float* to, const float* logits, int64_t experts) {
  for (int64_t e = 0; e < experts; e += kLanes) {
    store(to + e, -infinity());
    store_up_to(to + e, load_up_to(logits + e, experts - e), experts - e);
  }
}

// Returns the sigmoid of x. `e` must be exponential(-x), which is clamped, so the result is set to 0 if x is
// below -88. NaN stays NaN.
MTL_INLINE VFloat sigmoid_of(VFloat x, VFloat e) { return select(x < -88.0f, splat(0.0f), 1.0f / (1.0f + e)); }

// Returns ln(1 + e^x) = max(x, 0) + ln(1 + u) with u = e^-|x|. Multiplying by u / (w - 1) undoes the rounding
// of w = 1 + u, so that small results are also accurate (Kahan's method).
MTL_INLINE VFloat softplus(VFloat x) {
  const VFloat u = exponential(-bits_to_float(float_to_bits(x) & 0x7fffffffu)), w = 1.0f + u;
  const VFloat logarithm = select(w == 1.0f, u, natural_logarithm(w) * (u / (w - 1.0f)));
  return maximum(splat(0.0f), x) + logarithm;
}

template <ScoreFunction kFunction>
MTL_INLINE VFloat score(VFloat logit) {
  if constexpr (kFunction == ScoreFunction::kSigmoid) return sigmoid_of(logit, exponential(-logit));
  return square_root(softplus(logit));
}

// Returns the derivative of a score with respect to its logit.
template <ScoreFunction kFunction>
MTL_INLINE VFloat slope(VFloat logit) {
  const VFloat e = exponential(-logit), s = sigmoid_of(logit, e);
  if constexpr (kFunction == ScoreFunction::kSigmoid) return (e * s) * s;  // 1 - s = e s
  const VFloat root = square_root(softplus(logit));
  return select(root == 0.0f, splat(0.0f), s / (2.0f * root));
}

// The maximum and the sum of a softmax over a row of logits.
struct Softmax {
  float maximum, sum;

  VFloat at(VFloat logits) const { return exponential(logits - maximum) * (1.0f / sum); }
};

MTL_INLINE Softmax softmax_of(const float* logits, int64_t experts) {
  VFloat most = -infinity(), total = {};
  for (int64_t e = 0; e < experts; e += kLanes) most = maximum(most, load(logits + e));
  const float highest = largest(most);
  for (int64_t e = 0; e < experts; e += kLanes) total += exponential(load(logits + e) - highest);
  return {highest, sum(total)};
}

// Writes the `num` largest of `count` values to `best` in descending order, and their indices to `at`. If
// values are equal, the lower index comes first. No value may be NaN. The memory of `values` consists of
// complete vectors. Insertion into a sorted list is fast here, because few values exceed the smallest value
// found so far.
MTL_INLINE void select_largest(int32_t* at, float* best, int64_t num, const float* values, int64_t count) {
  int64_t found = 0;
  for (int64_t first = 0; first < count; first += kLanes) {
    uint32_t candidates = count - first >= kLanes ? ~uint32_t{0} >> (32 - kLanes) : (uint32_t{1} << (count - first)) - 1;
    if (found == num) candidates &= bits_of_mask(load(values + first) > best[num - 1]);
    for (; candidates != 0; candidates &= candidates - 1) {
      const int64_t index = first + __builtin_ctz(candidates);
      const float value = values[index];
      if (found == num && !(value > best[num - 1])) continue;
      int64_t place = found == num ? num - 1 : found++;
      for (; place > 0 && value > best[place - 1]; --place) {
        best[place] = best[place - 1];
        at[place] = at[place - 1];
      }
      best[place] = value;
      at[place] = static_cast<int32_t>(index);
    }
  }
}

MTL_INLINE Status expect_float32(const OpCall& call, int logits) {
  if (call.tensor(logits).dtype == DType::kFloat32) return ok_status();
  return error_status("MTL_DTYPE", "%s: float64 is computed on the reference device only", call.op);
}

// Calls `body` with a null pointer to a type whose kFunction is the score function.
template <ScoreFunction kOne>
struct ScoreKind {
  static constexpr ScoreFunction kFunction = kOne;
};
template <typename Body>
MTL_INLINE Status for_score_function(ScoreFunction function, const Body& body) {
  switch (function) {
    case ScoreFunction::kSoftmax:
      return body(static_cast<ScoreKind<ScoreFunction::kSoftmax>*>(nullptr));
    case ScoreFunction::kSigmoid:
      return body(static_cast<ScoreKind<ScoreFunction::kSigmoid>*>(nullptr));
    default:
      return body(static_cast<ScoreKind<ScoreFunction::kSqrtSoftplus>*>(nullptr));
  }
}

}  // namespace
}  // namespace mtl

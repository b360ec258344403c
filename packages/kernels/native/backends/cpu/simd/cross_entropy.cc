#include <math.h>

#include "backends/cpu/simd/hyperbolic_tangent.h"
#include "ops/cross_entropy.h"

namespace mtl {
namespace {

// Converts logits to the logits of the softmax: the same or, if kCapped is true, `cap * tanh(logit / cap)`.
template <bool kCapped>
struct SoftmaxLogits {
  float cap, inverse_cap;

  MTL_INLINE VFloat of(const SoftmaxLogits& v, VFloat logit) {
    return kCapped ? hyperbolic_tangent(logit * v.inverse_cap) * v.cap : logit;
  }
  MTL_INLINE float of(const SoftmaxLogits& v, float logit) { return kCapped ? of(v, splat(logit))[0] : logit; }
  // Returns the derivative of `of` with respect to its logit, given its result.
  MTL_INLINE VFloat derivative(const SoftmaxLogits& v, VFloat result) {
    const VFloat ratio = result * v.inverse_cap;
    return kCapped ? (1.0f - ratio) * (1.0f + ratio) : splat(1.0f);
  }
};

// Calls `body` with the SoftmaxLogits for the given soft cap.
template <typename Body>
Status with_cap(double cap, const Body& body) {
  const float one = static_cast<float>(cap);
  return cap == 0.0 ? body(SoftmaxLogits<false>{}) : body(SoftmaxLogits<true>{one, 1.0f / one});
}

template <typename T>
MTL_INLINE float row_maximum(const T* logits, int64_t columns) {
  // four running maxima are used, because each step must wait for the previous step of the same maximum
  VFloat greatest[4] = {splat(-INFINITY), splat(-INFINITY), splat(-INFINITY), splat(-INFINITY)};
  int64_t v = 0;
  for (; v + 4 * kLanes <= columns; v += 4 * kLanes) {
    for (int part = 0; part < 4; ++part) greatest[part] = maximum(greatest[part], load(logits + v + part * kLanes));
  }
  for (; v + kLanes <= columns; v += kLanes) greatest[0] = maximum(greatest[0], load(logits + v));
  float result = largest(maximum(maximum(greatest[0], greatest[1]), maximum(greatest[2], greatest[3])));
  for (; v < columns; ++v) result = load_one(logits + v) > result ? load_one(logits + v) : result;
  return result;
}

template <typename T, typename Logits>
MTL_INLINE float sum_of_exponentials(const T* logits, int64_t columns, float greatest, const Logits& softmax) {
  const auto weights_of = [&](VFloat values) { return exponential(Logits::of(softmax, values) - greatest); };
  // four running sums are used, because a single sum would lose precision over 50,000 terms
  VFloat totals[4] = {};
  int64_t v = 0;
  for (; v + 4 * kLanes <= columns; v += 4 * kLanes) {
    for (int part = 0; part < 4; ++part) totals[part] += weights_of(load(logits + v + part * kLanes));
  }
  for (; v + kLanes <= columns; v += kLanes) totals[0] += weights_of(load(logits + v));
  float result = sum((totals[0] + totals[1]) + (totals[2] + totals[3]));
  for (; v < columns; ++v) result += weights_of(splat(load_one(logits + v)))[0];
  return result;
}

template <typename T, typename Logits>
Status statistics_of(const OpCall& call, const Logits& softmax) {
  using Op = CrossEntropyStatistics;
  const int64_t rows = call.tensor(Op::kLogits).dim(0), width = call.tensor(Op::kLogits).dim(1);
  const int64_t first_column = call.integer(Op::kFirstColumn), num_columns = call.integer(Op::kNumColumns);
  const T* const logits = call.data<T>(Op::kLogits);
  const int32_t* const labels = call.data<int32_t>(Op::kLabels);
  float *const maxima = call.data<float>(Op::kRowMaximum), *const sums = call.data<float>(Op::kRowSum),
      *const label_logits = call.data<float>(Op::kLabelLogit);
  for_each(rows, rows * width, [&](int64_t row) {
    const T* const from = logits + row * width;
    // a soft cap does not change the order of logits; if there are no columns, the maximum stays -infinity
    maxima[row] = num_columns == 0 ? -INFINITY : Logits::of(softmax, row_maximum(from, num_columns));
    sums[row] = sum_of_exponentials(from, num_columns, maxima[row], softmax);
    const int64_t label = labels[row] - first_column;
    label_logits[row] = label >= 0 && label < num_columns ? Logits::of(softmax, load_one(from + label)) : 0.0f;
  });
  return ok_status();
}

// Writes scale * exp(logit - greatest), with scale = weight / sum, times the derivative of the soft cap.
// Padding columns become zero. The caller must then correct the label's column. If the scale is zero, the
// gradient is zero for all logits, even for NaN.
template <typename T, typename Logits>
MTL_INLINE void gradient_of_row(T* gradient, const T* logits, int64_t width, int64_t columns, float greatest,
                                float scale, const Logits& softmax) {
  const auto gradient_of = [&](VFloat values) {
    const VFloat logit = Logits::of(softmax, values);
    return exponential(logit - greatest) * scale * Logits::derivative(softmax, logit);
  };
  int64_t v = 0;
  for (; v + kLanes <= columns; v += kLanes) {
    store(gradient + v, scale == 0.0f ? VFloat{} : gradient_of(load(logits + v)));
  }
  for (; v < columns; ++v) {
    store_one(gradient + v, scale == 0.0f ? 0.0f : gradient_of(splat(load_one(logits + v)))[0]);
  }
  for (; v < width; ++v) store_one(gradient + v, 0.0f);
}

template <typename T, typename Logits>
Status backward_of(const OpCall& call, const Logits& softmax) {
  using Op = CrossEntropyBackward;
  const int64_t rows = call.tensor(Op::kLogits).dim(0), width = call.tensor(Op::kLogits).dim(1);
  const int64_t first_column = call.integer(Op::kFirstColumn), num_columns = call.integer(Op::kNumColumns),
      ignored = label_range(call).ignored;
  T* const gradients = call.data<T>(Op::kLogitGradient);
  const T* const logits = call.data<T>(Op::kLogits);
  const int32_t* const labels = call.data<int32_t>(Op::kLabels);
  const float *const maxima = call.data<float>(Op::kRowMaximum), *const sums = call.data<float>(Op::kRowSum);
  const float *const label_logits = call.data<float>(Op::kLabelLogit), *const weights = call.data<float>(Op::kWeights);
  float* const losses = call.data<float>(Op::kLoss);
  for_each(rows, rows * width, [&](int64_t row) {
    const float weight = labels[row] == ignored ? 0.0f : weights[row];
    // the label's logit must be subtracted from the maximum first: if the logarithm were added to a large
    // maximum, it would lose its digits
    losses[row] = weight == 0.0f ? 0.0f : logf(sums[row]) + (maxima[row] - label_logits[row]);
    if (gradients == nullptr) return;
    T* const gradient = gradients + row * width;
    const int64_t label = labels[row] - first_column;
    const bool own = weight != 0.0f && label >= 0 && label < num_columns;
    // the label's logit is read before the row is overwritten, because gradients may use the memory of the
    // logits
    const float label_logit = own ? Logits::of(softmax, load_one(logits + row * width + label)) : 0.0f;
    gradient_of_row(gradient, logits + row * width, width, num_columns, maxima[row],
                    weight == 0.0f ? 0.0f : weight / sums[row], softmax);
    if (!own) return;
    const float label_probability = expf(label_logit - maxima[row]) / sums[row];
    store_one(gradient + label, weight * (label_probability - 1.0f) * Logits::derivative(softmax, splat(label_logit))[0]);
  });
  return ok_status();
}

Status statistics(const OpCall& call) {
  using Op = CrossEntropyStatistics;
  return with_cap(call.attribute(Op::kSoftCap), [&](const auto& softmax) {
    return for_floating(call.tensor(Op::kLogits).dtype,
                        [&](auto* type) { return statistics_of<__typeof__(*type)>(call, softmax); });
  });
}

Status backward(const OpCall& call) {
  using Op = CrossEntropyBackward;
  MTL_RETURN_IF_ERROR(expect_labels(call, Op::kLabels, Op::kWeights));
  return with_cap(call.attribute(Op::kSoftCap), [&](const auto& softmax) {
    return for_floating(call.tensor(Op::kLogits).dtype,
                        [&](auto* type) { return backward_of<__typeof__(*type)>(call, softmax); });
  });
}

// runs on one thread, because one value per token is too little work for several threads
Status rescale(const OpCall& call) {
  using Op = CrossEntropyRescale;
  float* const output = call.data<float>(Op::kOutput);
  const float *const sums = call.data<float>(Op::kRowSum), *const maxima = call.data<float>(Op::kRowMaximum);
  const float* const group_maxima = call.data<float>(Op::kGroupMaximum);
  for (int64_t row = 0; row < call.tensor(Op::kOutput).size(); ++row) {
    output[row] = sums[row] * expf(maxima[row] - group_maxima[row]);
  }
  return ok_status();
}

MTL_REGISTER_CPU("cross_entropy_rescale", rescale);
MTL_REGISTER_CPU("cross_entropy_statistics", statistics);
MTL_REGISTER_CPU("cross_entropy_backward", backward);

}  // namespace
}  // namespace mtl

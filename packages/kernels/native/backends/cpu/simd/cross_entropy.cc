#include <math.h>

#include "backends/cpu/simd/simd.h"
#include "ops/cross_entropy.h"

namespace mtl {
namespace {

template <typename T>
MTL_INLINE float row_maximum(const T* logits, int64_t columns) {
  // four running maxima, because each step depends on the previous one
  VFloat greatest[4] = {splat(-INFINITY), splat(-INFINITY), splat(-INFINITY), splat(-INFINITY)};
  int64_t v = 0;
  for (; v + 4 * kLanes <= columns; v += 4 * kLanes) {
    for (int part = 0; part < 4; ++part) greatest[part] = maximum(greatest[part], load(logits + v + part * kLanes));
  }
  for (; v + kLanes <= columns; v += kLanes) greatest[0] = maximum(greatest[0], load(logits + v));
  float result = maximum_of(maximum(maximum(greatest[0], greatest[1]), maximum(greatest[2], greatest[3])));
  for (; v < columns; ++v) result = load_one(logits + v) > result ? load_one(logits + v) : result;
  return result;
}

template <typename T>
MTL_INLINE float sum_of_exponentials(const T* logits, int64_t columns, float greatest) {
  // four running sums: a single one would lose precision over 50,000 terms
  VFloat totals[4] = {};
  int64_t v = 0;
  for (; v + 4 * kLanes <= columns; v += 4 * kLanes) {
    for (int part = 0; part < 4; ++part) totals[part] += exponential(load(logits + v + part * kLanes) - greatest);
  }
  for (; v + kLanes <= columns; v += kLanes) totals[0] += exponential(load(logits + v) - greatest);
  float result = sum((totals[0] + totals[1]) + (totals[2] + totals[3]));
  for (; v < columns; ++v) result += exponential(splat(load_one(logits + v) - greatest))[0];
  return result;
}

template <typename T>
Status statistics_of(const OpCall& call) {
  using Op = CrossEntropyStatistics;
  const int64_t rows = call.tensor(Op::kLogits).dim(0), width = call.tensor(Op::kLogits).dim(1);
  const int64_t first_column = call.integer(Op::kFirstColumn), num_columns = call.integer(Op::kNumColumns);
  const T* const logits = call.data<T>(Op::kLogits);
  const int32_t* const labels = call.data<int32_t>(Op::kLabels);
  float *const maxima = call.data<float>(Op::kRowMaximum), *const sums = call.data<float>(Op::kRowSum),
      *const label_logits = call.data<float>(Op::kLabelLogit);
  for_each(rows, rows * width, [&](int64_t row) {
    const T* const from = logits + row * width;
    maxima[row] = row_maximum(from, num_columns);
    sums[row] = sum_of_exponentials(from, num_columns, maxima[row]);
    const int64_t label = labels[row] - first_column;
    label_logits[row] = label >= 0 && label < num_columns ? load_one(from + label) : 0.0f;
  });
  return ok_status();
}

// Writes scale * exp(logit - greatest), with scale = weight / sum, and zeros to padding columns; the caller
// then corrects the label's column. If the scale is zero, the gradient is zero for any logits, NaN included.
template <typename T>
MTL_INLINE void gradient_of_row(T* gradient, const T* logits, int64_t width, int64_t columns, float greatest,
                                float scale) {
  int64_t v = 0;
  for (; v + kLanes <= columns; v += kLanes) {
    store(gradient + v, scale == 0.0f ? VFloat{} : exponential(load(logits + v) - greatest) * scale);
  }
  for (; v < columns; ++v) {
    store_one(gradient + v, scale == 0.0f ? 0.0f : exponential(splat(load_one(logits + v) - greatest))[0] * scale);
  }
  for (; v < width; ++v) store_one(gradient + v, 0.0f);
}

template <typename T>
Status backward_of(const OpCall& call) {
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
    // subtracts first: if the logarithm were added to a large maximum, it would lose its digits
    losses[row] = weight == 0.0f ? 0.0f : logf(sums[row]) + (maxima[row] - label_logits[row]);
    if (gradients == nullptr) return;
    T* const gradient = gradients + row * width;
    const int64_t label = labels[row] - first_column;
    const bool own = weight != 0.0f && label >= 0 && label < num_columns;
    // before the row is overwritten: gradients may share the memory of the logits
    const float label_probability = own ? expf(load_one(logits + row * width + label) - maxima[row]) / sums[row] : 0.0f;
    gradient_of_row(gradient, logits + row * width, width, num_columns, maxima[row],
                    weight == 0.0f ? 0.0f : weight / sums[row]);
    if (own) store_one(gradient + label, weight * (label_probability - 1.0f));
  });
  return ok_status();
}

Status statistics(const OpCall& call) {
  using Op = CrossEntropyStatistics;
  return for_floating(call.tensor(Op::kLogits).dtype,
                      [&](auto* type) { return statistics_of<__typeof__(*type)>(call); });
}

Status backward(const OpCall& call) {
  using Op = CrossEntropyBackward;
  MTL_RETURN_IF_ERROR(expect_labels(call, Op::kLabels, Op::kWeights));
  return for_floating(call.tensor(Op::kLogits).dtype, [&](auto* type) { return backward_of<__typeof__(*type)>(call); });
}

// Runs on one thread: one value per token is too little work for more.
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

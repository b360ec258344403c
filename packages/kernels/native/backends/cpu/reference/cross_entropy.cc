#include <cmath>
#include <limits>

#include "backends/cpu/reference/element.h"
#include "ops/cross_entropy.h"

namespace mtl::reference {
namespace {

// The logits that enter the softmax. If `cap` is not 0, they are soft-capped.
struct CappedLogits {
  const TensorView& logits;
  double cap;

  double operator[](int64_t index) const {
    const double logit = get(logits, index);
    return cap == 0.0 ? logit : cap * std::tanh(logit / cap);
  }
  // Returns the derivative of a soft-capped logit with respect to the logit before the soft cap.
  double derivative(int64_t index) const {
    const double ratio = cap == 0.0 ? 0.0 : (*this)[index] / cap;
    return 1.0 - ratio * ratio;
  }
};

Status statistics(const OpCall& call) {
  using Op = CrossEntropyStatistics;
  const TensorView& logits = call.tensor(Op::kLogits);
  const CappedLogits capped = {logits, call.attribute(Op::kSoftCap)};
  const int64_t width = logits.dim(1), num_columns = call.integer(Op::kNumColumns);
  for (int64_t row = 0; row < logits.dim(0); ++row) {
    double maximum = -std::numeric_limits<double>::infinity(), sum = 0.0;
    for (int64_t v = 0; v < num_columns; ++v) maximum = std::fmax(maximum, capped[row * width + v]);
    for (int64_t v = 0; v < num_columns; ++v) sum += std::exp(capped[row * width + v] - maximum);
    const int64_t label = get_integer(call.tensor(Op::kLabels), row) - call.integer(Op::kFirstColumn);
    set(call.tensor(Op::kRowMaximum), row, maximum);
    set(call.tensor(Op::kRowSum), row, sum);
    set(call.tensor(Op::kLabelLogit), row, label >= 0 && label < num_columns ? capped[row * width + label] : 0.0);
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = CrossEntropyBackward;
  MTL_RETURN_IF_ERROR(expect_labels(call, Op::kLabels, Op::kWeights));
  const int64_t ignored = label_range(call).ignored;
  const TensorView& logits = call.tensor(Op::kLogits);
  const CappedLogits capped = {logits, call.attribute(Op::kSoftCap)};
  const int64_t width = logits.dim(1), num_columns = call.integer(Op::kNumColumns);
  for (int64_t row = 0; row < logits.dim(0); ++row) {
    const double maximum = get(call.tensor(Op::kRowMaximum), row), sum = get(call.tensor(Op::kRowSum), row);
    const bool is_ignored = get_integer(call.tensor(Op::kLabels), row) == ignored;
    const double weight = is_ignored ? 0.0 : get(call.tensor(Op::kWeights), row);
    set(call.tensor(Op::kLoss), row,
        weight == 0.0 ? 0.0 : std::log(sum) + (maximum - get(call.tensor(Op::kLabelLogit), row)));
    if (!call.has(Op::kLogitGradient)) continue;
    const int64_t label = get_integer(call.tensor(Op::kLabels), row) - call.integer(Op::kFirstColumn);
    for (int64_t v = 0; v < width; ++v) {
      const double probability = v < num_columns ? std::exp(capped[row * width + v] - maximum) / sum : 0.0;
      const double expected = v == label && v < num_columns ? 1.0 : 0.0;
      const double gradient = weight == 0.0 ? 0.0 : weight * (probability - expected) * capped.derivative(row * width + v);
      set(call.tensor(Op::kLogitGradient), row * width + v, gradient);
    }
  }
  return ok_status();
}

Status rescale(const OpCall& call) {
  using Op = CrossEntropyRescale;
  for (int64_t row = 0; row < call.tensor(Op::kOutput).size(); ++row) {
    const double below = get(call.tensor(Op::kRowMaximum), row) - get(call.tensor(Op::kGroupMaximum), row);
    set(call.tensor(Op::kOutput), row, get(call.tensor(Op::kRowSum), row) * std::exp(below));
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("cross_entropy_rescale", rescale);
MTL_REGISTER_REFERENCE("cross_entropy_statistics", statistics);
MTL_REGISTER_REFERENCE("cross_entropy_backward", backward);

}  // namespace
}  // namespace mtl::reference

#include <cmath>
#include <limits>

#include "backends/cpu/reference/element.h"
#include "ops/cross_entropy.h"

namespace mtl::reference {
namespace {

Status statistics(const OpCall& call) {
  const TensorView& logits = call.tensor(3);
  const int64_t width = logits.dim(1), num_columns = call.integer(1);
  for (int64_t row = 0; row < logits.dim(0); ++row) {
    double maximum = -std::numeric_limits<double>::infinity(), sum = 0.0;
    for (int64_t v = 0; v < num_columns; ++v) maximum = std::fmax(maximum, get(logits, row * width + v));
    for (int64_t v = 0; v < num_columns; ++v) sum += std::exp(get(logits, row * width + v) - maximum);
    const int64_t label = get_integer(call.tensor(4), row) - call.integer(0);
    set(call.tensor(0), row, maximum);
    set(call.tensor(1), row, sum);
    set(call.tensor(2), row, label >= 0 && label < num_columns ? get(logits, row * width + label) : 0.0);
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_labels(call, 3, 7));
  const int64_t ignored = label_range(call).ignored;
  const TensorView& logits = call.tensor(2);
  const int64_t width = logits.dim(1), num_columns = call.integer(1);
  for (int64_t row = 0; row < logits.dim(0); ++row) {
    const double maximum = get(call.tensor(4), row), sum = get(call.tensor(5), row);
    const double weight = get_integer(call.tensor(3), row) == ignored ? 0.0 : get(call.tensor(7), row);
    set(call.tensor(1), row, weight == 0.0 ? 0.0 : std::log(sum) + (maximum - get(call.tensor(6), row)));
    if (!call.has(0)) continue;
    const int64_t label = get_integer(call.tensor(3), row) - call.integer(0);
    for (int64_t v = 0; v < width; ++v) {
      const double probability = v < num_columns ? std::exp(get(logits, row * width + v) - maximum) / sum : 0.0;
      const double expected = v == label && v < num_columns ? 1.0 : 0.0;
      set(call.tensor(0), row * width + v, weight == 0.0 ? 0.0 : weight * (probability - expected));
    }
  }
  return ok_status();
}

Status rescale(const OpCall& call) {
  for (int64_t row = 0; row < call.tensor(0).size(); ++row) {
    const double below = get(call.tensor(2), row) - get(call.tensor(3), row);
    set(call.tensor(0), row, get(call.tensor(1), row) * std::exp(below));
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("cross_entropy_rescale", rescale);
MTL_REGISTER_REFERENCE("cross_entropy_statistics", statistics);
MTL_REGISTER_REFERENCE("cross_entropy_backward", backward);

}  // namespace
}  // namespace mtl::reference

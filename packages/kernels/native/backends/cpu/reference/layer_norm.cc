#include <cmath>

#include "backends/cpu/reference/element.h"
#include "ops/layer_norm.h"

namespace mtl::reference {
namespace {

Status forward(const OpCall& call) {
  using Op = LayerNormForward;
  const TensorView& input = call.tensor(Op::kInput);
  const int64_t hidden = input.dim(-1);
  for (int64_t row = 0; row < input.rows(); ++row) {
    double mean = 0.0, variance = 0.0;
    for (int64_t h = 0; h < hidden; ++h) mean += get(input, row * hidden + h) / static_cast<double>(hidden);
    for (int64_t h = 0; h < hidden; ++h) {
      const double centred = get(input, row * hidden + h) - mean;
      variance += centred * centred / static_cast<double>(hidden);
    }
    const double rstd = 1.0 / std::sqrt(variance + call.attribute(Op::kEpsilon));
    set(call.tensor(Op::kMean), row, mean);
    set(call.tensor(Op::kRstd), row, rstd);
    for (int64_t h = 0; h < hidden; ++h) {
      const double normalized = (get(input, row * hidden + h) - mean) * rstd;
      set(call.tensor(Op::kOutput), row * hidden + h,
          normalized * get(call.tensor(Op::kWeight), h) + get(call.tensor(Op::kBias), h));
    }
  }
  return ok_status();
}

void accumulate(const TensorView& tensor, int64_t index, double value) {
  set(tensor, index, get(tensor, index) + value);
}

Status backward(const OpCall& call) {
  using Op = LayerNormBackward;
  const TensorView &output_gradient = call.tensor(Op::kOutputGradient), &input = call.tensor(Op::kInput),
      &weight = call.tensor(Op::kWeight);
  const int64_t hidden = input.dim(-1);
  for (int64_t row = 0; row < input.rows(); ++row) {
    const double mean = get(call.tensor(Op::kMean), row), rstd = get(call.tensor(Op::kRstd), row);
    double mean_gradient = 0.0, mean_product = 0.0;
    for (int64_t h = 0; h < hidden; ++h) {
      const double gradient = get(output_gradient, row * hidden + h) * get(weight, h);
      mean_gradient += gradient / static_cast<double>(hidden);
      mean_product += gradient * (get(input, row * hidden + h) - mean) * rstd / static_cast<double>(hidden);
    }
    for (int64_t h = 0; h < hidden; ++h) {
      const int64_t index = row * hidden + h;
      const double normalized = (get(input, index) - mean) * rstd;
      const double gradient = get(output_gradient, index);
      if (call.has(Op::kInputGradient)) {
        const double own = (gradient * get(weight, h) - mean_gradient - normalized * mean_product) * rstd;
        set(call.tensor(Op::kInputGradient), index,
            own + (call.has(Op::kAddend) ? get(call.tensor(Op::kAddend), index) : 0.0));
      }
      if (call.has(Op::kWeightGradient)) accumulate(call.tensor(Op::kWeightGradient), h, gradient * normalized);
      if (call.has(Op::kBiasGradient)) accumulate(call.tensor(Op::kBiasGradient), h, gradient);
    }
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("layer_norm_forward", forward);
MTL_REGISTER_REFERENCE("layer_norm_backward", backward);

}  // namespace
}  // namespace mtl::reference

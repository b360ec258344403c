#include <cmath>

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

Status forward(const OpCall& call) {
  const TensorView& input = call.tensor(3);
  const int64_t hidden = input.dim(-1);
  for (int64_t row = 0; row < input.rows(); ++row) {
    double mean = 0.0, variance = 0.0;
    for (int64_t h = 0; h < hidden; ++h) mean += get(input, row * hidden + h) / static_cast<double>(hidden);
    for (int64_t h = 0; h < hidden; ++h) {
      const double centred = get(input, row * hidden + h) - mean;
      variance += centred * centred / static_cast<double>(hidden);
    }
    const double rstd = 1.0 / std::sqrt(variance + call.attribute(0));
    set(call.tensor(1), row, mean);
    set(call.tensor(2), row, rstd);
    for (int64_t h = 0; h < hidden; ++h) {
      const double normalized = (get(input, row * hidden + h) - mean) * rstd;
      set(call.tensor(0), row * hidden + h, normalized * get(call.tensor(4), h) + get(call.tensor(5), h));
    }
  }
  return ok_status();
}

void accumulate(const TensorView& tensor, int64_t index, double value) {
  set(tensor, index, get(tensor, index) + value);
}

Status backward(const OpCall& call) {
  const TensorView &output_gradient = call.tensor(3), &input = call.tensor(4), &weight = call.tensor(7);
  const int64_t hidden = input.dim(-1);
  for (int64_t row = 0; row < input.rows(); ++row) {
    const double mean = get(call.tensor(5), row), rstd = get(call.tensor(6), row);
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
      if (call.has(0)) {
        const double own = (gradient * get(weight, h) - mean_gradient - normalized * mean_product) * rstd;
        set(call.tensor(0), index, own + (call.has(8) ? get(call.tensor(8), index) : 0.0));
      }
      if (call.has(1)) accumulate(call.tensor(1), h, gradient * normalized);
      if (call.has(2)) accumulate(call.tensor(2), h, gradient);
    }
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("layer_norm_forward", forward);
MTL_REGISTER_REFERENCE("layer_norm_backward", backward);

}  // namespace
}  // namespace mtl::reference

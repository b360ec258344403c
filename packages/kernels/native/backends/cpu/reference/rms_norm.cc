#include "ops/rms_norm.h"

#include <cmath>

#include "backends/cpu/reference/element.h"
#include "core/row_layout.h"

namespace mtl::reference {
namespace {

// Returns element `h` of the given row. The tensor may be contiguous or strided.
int64_t at(const TensorView& tensor, int64_t row, int64_t h) { return row_start(row_layout_of(tensor), row) + h; }

Status forward(const OpCall& call) {
  using Op = RmsNormForward;
  const TensorView &input = call.tensor(Op::kInput), &output = call.tensor(Op::kOutput);
  const int64_t hidden = input.dim(-1);
  for (int64_t row = 0; row < input.rows(); ++row) {
    double mean_square = 0.0;
    for (int64_t h = 0; h < hidden; ++h) {
      const double value = get(input, at(input, row, h));
      mean_square += value * value / static_cast<double>(hidden);
    }
    if (call.has(Op::kSquares)) mean_square = get(call.tensor(Op::kSquares), row) / call.attribute(Op::kWidth);
    const double rstd = 1.0 / std::sqrt(mean_square + call.attribute(Op::kEpsilon));
    set(call.tensor(Op::kRstd), row, rstd);
    for (int64_t h = 0; h < hidden; ++h) {
      set(output, at(output, row, h), get(input, at(input, row, h)) * rstd * get(call.tensor(Op::kWeight), h));
    }
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = RmsNormBackward;
  const TensorView &output_gradient = call.tensor(Op::kOutputGradient), &input = call.tensor(Op::kInput),
                   &weight = call.tensor(Op::kWeight), &addend = call.tensor(Op::kAddend),
                   &input_gradient = call.tensor(Op::kInputGradient), &weight_gradient = call.tensor(Op::kWeightGradient);
  const int64_t hidden = input.dim(-1);
  for (int64_t row = 0; row < input.rows(); ++row) {
    const double rstd = get(call.tensor(Op::kRstd), row);
    double mean_product = 0.0;
    for (int64_t h = 0; h < hidden; ++h) {
      const double gradient = get(output_gradient, at(output_gradient, row, h)) * get(weight, h);
      mean_product += gradient * get(input, at(input, row, h)) * rstd / static_cast<double>(hidden);
    }
    if (call.has(Op::kProducts)) {
      mean_product = get(call.tensor(Op::kProducts), row) * rstd / call.attribute(Op::kWidth);
    }
    for (int64_t h = 0; h < hidden; ++h) {
      const double normalized = get(input, at(input, row, h)) * rstd;
      const double gradient = get(output_gradient, at(output_gradient, row, h));
      if (call.has(Op::kInputGradient)) {
        const double own = (gradient * get(weight, h) - normalized * mean_product) * rstd;
        set(input_gradient, at(input_gradient, row, h),
            own + (call.has(Op::kAddend) ? get(addend, at(addend, row, h)) : 0.0));
      }
      if (call.has(Op::kWeightGradient)) set(weight_gradient, h, get(weight_gradient, h) + gradient * normalized);
    }
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("rms_norm_forward", forward);
MTL_REGISTER_REFERENCE("rms_norm_backward", backward);

}  // namespace
}  // namespace mtl::reference

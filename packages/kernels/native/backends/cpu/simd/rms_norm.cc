#include "ops/rms_norm.h"

#include <math.h>

#include "backends/cpu/simd/column_sums.h"
#include "backends/cpu/simd/row_ranges.h"

namespace mtl {
namespace {

template <typename T>
MTL_INLINE float mean_square(const T* row, int64_t hidden) {
  // four running sums are used, because each addition to a sum must wait for the previous one
  VFloat squares[4] = {};
  int64_t h = 0;
  for (; h + 4 * kLanes <= hidden; h += 4 * kLanes) {
    for (int part = 0; part < 4; ++part) {
      const VFloat value = load(row + h + part * kLanes);
      squares[part] += value * value;
    }
  }
  for (; h < hidden; h += kLanes) {
    const VFloat value = load_up_to(row + h, hidden - h);
    squares[0] += value * value;
  }
  return sum((squares[0] + squares[1]) + (squares[2] + squares[3])) / static_cast<float>(hidden);
}

template <typename T>
Status forward_of(const OpCall& call) {
  using Op = RmsNormForward;
  const int64_t rows = call.tensor(Op::kInput).rows(), hidden = call.tensor(Op::kInput).dim(-1);
  const RowLayout inputs = row_layout_of(call.tensor(Op::kInput)), outputs = row_layout_of(call.tensor(Op::kOutput));
  const T* const weight = call.data<T>(Op::kWeight);
  float* const rstds = call.data<float>(Op::kRstd);
  const float epsilon = static_cast<float>(call.attribute(Op::kEpsilon));
  const float width = static_cast<float>(call.attribute(Op::kWidth));
  const float* const squares = call.data<float>(Op::kSquares);
  for_ranges(rows, rows * hidden, [&](int64_t first, int64_t last) {
    RowWalk<const T> from(call.data<T>(Op::kInput), inputs, first);
    RowWalk<T> to(call.data<T>(Op::kOutput), outputs, first);
    for (int64_t row = first; row < last; ++row, from.next(), to.next()) {
      const float mean = squares == nullptr ? mean_square(from.row(), hidden) : squares[row] / width;
      const float rstd = 1.0f / sqrtf(mean + epsilon);
      rstds[row] = rstd;
      for (int64_t h = 0; h < hidden; h += kLanes) {
        const int64_t left = hidden - h;
        store_up_to(to.row() + h, load_up_to(from.row() + h, left) * rstd * load_up_to(weight + h, left), left);
      }
    }
  });
  return ok_status();
}

// The same row in each tensor of a backward call. input_gradient is null if it was not requested.
template <typename T>
struct BackwardRow {
  T* input_gradient;
  const T *output_gradient, *input, *addend;
  float rstd;
};

// Adds dy * x_hat to `sums`, unless `sums` is null. Returns the sum of dy * weight * x.
template <typename T>
MTL_INLINE float add_products(const BackwardRow<T>& row, const T* weight, int64_t hidden, float* sums) {
  VFloat products[2] = {};
  const auto add = [&](int64_t h, int64_t left, VFloat* products) {
    const VFloat gradient = load_up_to(row.output_gradient + h, left), x = load_up_to(row.input + h, left);
    *products += gradient * load_up_to(weight + h, left) * x;
    if (sums != nullptr) store_up_to(sums + h, load_up_to(sums + h, left) + gradient * (x * row.rstd), left);
  };
  int64_t h = 0;
  for (; h + 2 * kLanes <= hidden; h += 2 * kLanes) {
    add(h, kLanes, &products[0]);
    add(h + kLanes, kLanes, &products[1]);
  }
  for (; h < hidden; h += kLanes) add(h, hidden - h, &products[0]);
  return sum(products[0] + products[1]);
}

// Computes dx = rstd * (dy * weight - x_hat * mean(dy * weight * x_hat)) + addend. The mean is over `width`
// features.
template <typename T>
MTL_INLINE void write_input_gradient(const BackwardRow<T>& row, const T* weight, int64_t hidden, float products,
                                     float width) {
  // this order of multiplications keeps rstd * products at the magnitude of dy * weight, whereas rstd^3 may
  // exceed float32's range
  const float of_input = row.rstd * products / width * row.rstd * row.rstd;
  for (int64_t h = 0; h < hidden; h += kLanes) {
    const int64_t left = hidden - h;
    const VFloat gradient = load_up_to(row.output_gradient + h, left) * load_up_to(weight + h, left);
    VFloat result = gradient * row.rstd - load_up_to(row.input + h, left) * of_input;
    if (row.addend != nullptr) result += load_up_to(row.addend + h, left);
    store_up_to(row.input_gradient + h, result, left);
  }
}

template <typename T>
Status backward_of(const OpCall& call) {
  using Op = RmsNormBackward;
  const int64_t rows = call.tensor(Op::kInput).rows(), hidden = call.tensor(Op::kInput).dim(-1);
  const RowLayout inputs = row_layout_of(call.tensor(Op::kInput)),
                  output_gradients = row_layout_of(call.tensor(Op::kOutputGradient)),
                  input_gradients = row_layout_of(call.tensor(Op::kInputGradient)),
                  addends = row_layout_of(call.tensor(Op::kAddend));
  const T* const weight = call.data<T>(Op::kWeight);
  const float* const rstd = call.data<float>(Op::kRstd);
  const float* const whole_products = call.data<float>(Op::kProducts);
  const float width = static_cast<float>(call.attribute(Op::kWidth));
  const auto run = [&](int64_t first, int64_t last, float* sums) {
    RowWalk<T> input_gradient(call.data<T>(Op::kInputGradient), input_gradients, first);
    RowWalk<const T> output_gradient(call.data<T>(Op::kOutputGradient), output_gradients, first);
    RowWalk<const T> input(call.data<T>(Op::kInput), inputs, first);
    RowWalk<const T> addend(call.data<T>(Op::kAddend), addends, first);
    for (int64_t row = first; row < last; ++row) {
      const BackwardRow<T> of = {input_gradient.row(), output_gradient.row(), input.row(), addend.row(), rstd[row]};
      float products = add_products(of, weight, hidden, sums);
      if (whole_products != nullptr) products = whole_products[row];
      if (of.input_gradient != nullptr) write_input_gradient(of, weight, hidden, products, width);
      input_gradient.next();
      output_gradient.next();
      input.next();
      addend.next();
    }
  };
  float* const weight_gradient = call.data<float>(Op::kWeightGradient);
  if (weight_gradient == nullptr) {
    for_ranges(rows, rows * hidden, [&](int64_t first, int64_t last) { run(first, last, nullptr); });
    return ok_status();
  }
  return column_sums(rows, hidden, run, [&](int64_t h, float total) { weight_gradient[h] += total; });
}

Status forward(const OpCall& call) {
  using Op = RmsNormForward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) { return forward_of<__typeof__(*type)>(call); });
}

Status backward(const OpCall& call) {
  using Op = RmsNormBackward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) { return backward_of<__typeof__(*type)>(call); });
}

Status backward_scratch(const OpCall& call, ScratchBlocks* blocks) {
  using Op = RmsNormBackward;
  const TensorView& input = call.tensor(Op::kInput);
  if (call.has(Op::kWeightGradient)) blocks->add(column_sums_bytes(input.rows(), input.dim(-1)));
  return ok_status();
}

MTL_REGISTER_CPU("rms_norm_forward", forward);
MTL_REGISTER_CPU("rms_norm_backward", backward, backward_scratch);

}  // namespace
}  // namespace mtl

#include <math.h>

#include "backends/cpu/simd/column_sums.h"
#include "ops/layer_norm.h"

namespace mtl {
namespace {

struct Moments {
  float mean, rstd;
};

// Computes mean and rstd in two passes over a row. The second pass reads the row from the cache. Summing
// squared differences avoids cancellation.
template <typename T>
MTL_INLINE Moments moments_of(const T* row, int64_t hidden, float epsilon) {
  // four running sums are used, because each addition to a sum must wait for the previous one
  VFloat totals[4] = {}, squares[4] = {};
  int64_t h = 0;
  for (; h + 4 * kLanes <= hidden; h += 4 * kLanes) {
    for (int part = 0; part < 4; ++part) totals[part] += load(row + h + part * kLanes);
  }
  for (; h < hidden; h += kLanes) totals[0] += load_up_to(row + h, hidden - h);
  const float mean = sum((totals[0] + totals[1]) + (totals[2] + totals[3])) / static_cast<float>(hidden);
  for (h = 0; h + 4 * kLanes <= hidden; h += 4 * kLanes) {
    for (int part = 0; part < 4; ++part) {
      const VFloat centred = load(row + h + part * kLanes) - mean;
      squares[part] += centred * centred;
    }
  }
  for (; h + kLanes <= hidden; h += kLanes) {
    const VFloat centred = load(row + h) - mean;
    squares[0] += centred * centred;
  }
  float variance = sum((squares[0] + squares[1]) + (squares[2] + squares[3]));
  for (; h < hidden; ++h) variance += (load_one(row + h) - mean) * (load_one(row + h) - mean);
  return {mean, 1.0f / sqrtf(variance / static_cast<float>(hidden) + epsilon)};
}

template <typename T>
Status forward_of(const OpCall& call) {
  using Op = LayerNormForward;
  const int64_t rows = call.tensor(Op::kInput).rows(), hidden = call.tensor(Op::kInput).dim(-1);
  const T *input = call.data<T>(Op::kInput), *weight = call.data<T>(Op::kWeight), *bias = call.data<T>(Op::kBias);
  T* const output = call.data<T>(Op::kOutput);
  float *const mean = call.data<float>(Op::kMean), *const rstd = call.data<float>(Op::kRstd);
  const float epsilon = static_cast<float>(call.attribute(Op::kEpsilon));
  for_each(rows, rows * hidden, [&](int64_t row) {
    const T* const from = input + row * hidden;
    const Moments moments = moments_of(from, hidden, epsilon);
    mean[row] = moments.mean;
    rstd[row] = moments.rstd;
    for (int64_t h = 0; h < hidden; h += kLanes) {
      const int64_t left = hidden - h;
      const VFloat normalized = (load_up_to(from + h, left) - moments.mean) * moments.rstd;
      store_up_to(output + row * hidden + h, normalized * load_up_to(weight + h, left) + load_up_to(bias + h, left),
                  left);
    }
  });
  return ok_status();
}

// The arrays in a backward call. input_gradient is null if it was not requested.
template <typename T>
struct Backward {
  T* input_gradient;
  const T *output_gradient, *input, *weight, *addend;
  const float *mean, *rstd;
  int64_t hidden;
};

// Computes dx = rstd * (g - mean(g) - x_hat * mean(g * x_hat)) + addend, with g = dy * weight.
template <typename T>
MTL_INLINE void input_gradient_of_row(const Backward<T>& b, int64_t row) {
  const int64_t start = row * b.hidden;
  const float mean = b.mean[row], rstd = b.rstd[row];
  VFloat gradients = {}, products = {};
  for (int64_t h = 0; h < b.hidden; h += kLanes) {
    const int64_t left = b.hidden - h;
    const VFloat gradient = load_up_to(b.output_gradient + start + h, left) * load_up_to(b.weight + h, left);
    gradients += gradient;
    products += gradient * ((load_up_to(b.input + start + h, left) - mean) * rstd);
  }
  const float mean_gradient = sum(gradients) / static_cast<float>(b.hidden);
  const float mean_product = sum(products) / static_cast<float>(b.hidden);
  for (int64_t h = 0; h < b.hidden; h += kLanes) {
    const int64_t left = b.hidden - h;
    const VFloat gradient = load_up_to(b.output_gradient + start + h, left) * load_up_to(b.weight + h, left);
    const VFloat normalized = (load_up_to(b.input + start + h, left) - mean) * rstd;
    VFloat result = (gradient - mean_gradient - normalized * mean_product) * rstd;
    if (b.addend != nullptr) result += load_up_to(b.addend + start + h, left);
    store_up_to(b.input_gradient + start + h, result, left);
  }
}

// Adds dy * x_hat to sums[0, hidden), and dy to sums[hidden, 2 * hidden).
template <typename T>
MTL_INLINE void add_weight_gradients_of_row(const Backward<T>& b, int64_t row, float* sums) {
  const int64_t start = row * b.hidden;
  for (int64_t h = 0; h < b.hidden; h += kLanes) {
    const int64_t left = b.hidden - h;
    const VFloat gradient = load_up_to(b.output_gradient + start + h, left);
    const VFloat normalized = (load_up_to(b.input + start + h, left) - b.mean[row]) * b.rstd[row];
    store_up_to(sums + h, load_up_to(sums + h, left) + gradient * normalized, left);
    store_up_to(sums + b.hidden + h, load_up_to(sums + b.hidden + h, left) + gradient, left);
  }
}

template <typename T>
Status backward_of(const OpCall& call) {
  using Op = LayerNormBackward;
  const Backward<T> b = {call.data<T>(Op::kInputGradient), call.data<T>(Op::kOutputGradient),
                         call.data<T>(Op::kInput), call.data<T>(Op::kWeight),
                         call.data<T>(Op::kAddend), call.data<float>(Op::kMean), call.data<float>(Op::kRstd),
                             call.tensor(Op::kInput).dim(-1)};
  const int64_t rows = call.tensor(Op::kInput).rows();
  float *const weight_gradient = call.data<float>(Op::kWeightGradient),
      *const bias_gradient = call.data<float>(Op::kBiasGradient);
  if (weight_gradient == nullptr) {
    for_each(rows, rows * b.hidden, [&](int64_t row) { input_gradient_of_row(b, row); });
    return ok_status();
  }
  return column_sums(
      rows, 2 * b.hidden,
      [&](int64_t first, int64_t last, float* sums) {
        for (int64_t row = first; row < last; ++row) {
          // this must precede the input gradient, which may overwrite the memory of the output gradient
          add_weight_gradients_of_row(b, row, sums);
          if (b.input_gradient != nullptr) input_gradient_of_row(b, row);
        }
      },
      [&](int64_t index, float total) {
        if (index < b.hidden) {
          weight_gradient[index] += total;
        } else {
          bias_gradient[index - b.hidden] += total;
        }
      });
}

Status forward(const OpCall& call) {
  using Op = LayerNormForward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) { return forward_of<__typeof__(*type)>(call); });
}

Status backward(const OpCall& call) {
  using Op = LayerNormBackward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) { return backward_of<__typeof__(*type)>(call); });
}

Status backward_scratch(const OpCall& call, ScratchBlocks* blocks) {
  using Op = LayerNormBackward;
  const TensorView& input = call.tensor(Op::kInput);
  if (call.has(Op::kWeightGradient)) blocks->add(column_sums_bytes(input.rows(), 2 * input.dim(-1)));
  return ok_status();
}

MTL_REGISTER_CPU("layer_norm_forward", forward);
MTL_REGISTER_CPU("layer_norm_backward", backward, backward_scratch);

}  // namespace
}  // namespace mtl

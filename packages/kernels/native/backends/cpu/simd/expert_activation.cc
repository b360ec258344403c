#include "ops/expert_activation.h"

#include "backends/cpu/simd/gelu.h"
#include "backends/cpu/simd/group_walk.h"
#include "core/index_check.h"

namespace mtl {
namespace {

struct Limits {
  float clamp, linear_offset;  // clamp 0: no limit
};

// The value and the derivative of an activation function.
struct Value {
  VFloat value, derivative;
};

// Returns `x * sigmoid(factor * x)` and its derivative. If the sigmoid is less than float32's smallest normal
// number, it becomes 0, so that its product with a large gate is not large.
MTL_INLINE Value sigmoid_weighted(VFloat x, float factor) {
  const VFloat scaled = factor * x, e = exponential(-scaled);
  const VFloat s = select(scaled < -88.0f, splat(0.0f), 1.0f / (1.0f + e));
  return {x * s, s + scaled * s * (e * s)};  // 1 - s = e s
}

template <ExpertActivation kKind>
MTL_INLINE Value activate(VFloat x) {
  if constexpr (kKind == ExpertActivation::kSwiglu) return sigmoid_weighted(x, 1.0f);
  if constexpr (kKind == ExpertActivation::kQuickGeglu) return sigmoid_weighted(x, 1.702f);
  if constexpr (kKind == ExpertActivation::kGeluTanh) return {gelu<false>(x), gelu_derivative<false>(x)};
  if constexpr (kKind == ExpertActivation::kGeluErf) return {gelu<true>(x), gelu_derivative<true>(x)};
  const VFloat positive = maximum(splat(0.0f), x);  // NaN stays NaN
  return {positive * positive, 2.0f * positive};
}

// Elements of the output before they are multiplied by their row's probability, and their derivatives with
// respect to the gate and to the value.
struct Elements {
  VFloat value, by_gate, by_value;
};

// A row of the input, and the biases of its group's columns.
template <typename T>
struct Columns {
  const T *row, *bias;  // bias: null if absent
  int64_t width;        // F

  VFloat at(int64_t column, int64_t left) const {
    const VFloat value = load_up_to(row + column, left);
    return bias == nullptr ? value : value + load_up_to(bias + column, left);
  }
};

template <ExpertActivation kKind, typename T>
MTL_INLINE Elements elements_at(const Columns<T>& from, int64_t column, const Limits& limits) {
  const int64_t left = from.width - column;
  const VFloat first = from.at(column, left);
  if constexpr (!is_gated(kKind)) {
    const Value x = activate<kKind>(first);
    return {x.value, x.derivative, VFloat{}};
  }
  const VFloat second = from.at(from.width + column, left);
  const VFloat limit = splat(limits.clamp > 0.0f ? limits.clamp : __builtin_inff()), zero = {};
  const Value x = activate<kKind>(minimum(limit, first));
  const VFloat shifted = maximum(-limit, minimum(limit, second)) + limits.linear_offset;
  const VFloat by_gate = x.derivative * shifted;
  return {x.value * shifted, select(first > limit, zero, by_gate),
          select((second > limit) | (second < -limit), zero, x.value)};
}

template <typename T>
void clear_row(T* row, int64_t width) {
  for (int64_t column = 0; column < width; column += kLanes) store_up_to(row + column, VFloat{}, width - column);
}

// Calls body(row, group) for every row. Each thread processes its rows in ascending order.
template <typename Body>
MTL_INLINE void for_grouped_rows(const OpCall& call, int offsets, int64_t rows, int64_t width, const Body& body) {
  const int32_t* const bounds = call.data<int32_t>(offsets);
  const int64_t groups = call.tensor(offsets).size() - 1;
  for_ranges(rows, rows * width, [&](int64_t first, int64_t last) {
    GroupWalk walk(bounds, groups);
    for (int64_t row = first; row < last; ++row) body(row, walk.group_of(row));
  });
}

template <typename Op>
Limits limits_of(const OpCall& call) {
  return {static_cast<float>(call.attribute(Op::kClamp)), static_cast<float>(call.attribute(Op::kLinearOffset))};
}

template <ExpertActivation kKind, typename T>
void forward_of(const OpCall& call) {
  using Op = ExpertActivationForward;
  const int64_t rows = call.tensor(Op::kOutput).rows(), width = call.tensor(Op::kOutput).dim(-1),
                input_width = call.tensor(Op::kInput).dim(-1), groups = call.tensor(Op::kOffsets).size() - 1;
  const Limits limits = limits_of<Op>(call);
  T* const output = call.data<T>(Op::kOutput);
  const T *const input = call.data<T>(Op::kInput), *const bias = call.data<T>(Op::kBias);
  const float* const probabilities = call.data<float>(Op::kProbabilities);
  for_grouped_rows(call, Op::kOffsets, rows, width, [&](int64_t row, int64_t group) {
    T* const to = output + row * width;
    if (group == groups) return clear_row(to, width);
    const Columns<T> from = {input + row * input_width, bias == nullptr ? nullptr : bias + group * input_width, width};
    const float probability = probabilities == nullptr ? 1.0f : probabilities[row];
    for (int64_t column = 0; column < width; column += kLanes) {
      store_up_to(to + column, elements_at<kKind>(from, column, limits).value * probability, width - column);
    }
  });
}

template <ExpertActivation kKind, typename T>
void backward_of(const OpCall& call) {
  using Op = ExpertActivationBackward;
  const int64_t rows = call.tensor(Op::kOutputGradient).rows(), width = call.tensor(Op::kOutputGradient).dim(-1),
                input_width = call.tensor(Op::kInput).dim(-1), groups = call.tensor(Op::kOffsets).size() - 1;
  const Limits limits = limits_of<Op>(call);
  T* const input_gradient = call.data<T>(Op::kInputGradient);
  const T *const output_gradient = call.data<T>(Op::kOutputGradient), *const input = call.data<T>(Op::kInput),
                 *const bias = call.data<T>(Op::kBias);
  const float* const probabilities = call.data<float>(Op::kProbabilities);
  float* const of_probabilities = call.data<float>(Op::kProbabilitiesGradient);
  for_grouped_rows(call, Op::kOffsets, rows, width, [&](int64_t row, int64_t group) {
    T* const to = input_gradient + row * input_width;
    if (group == groups) {
      if (of_probabilities != nullptr) of_probabilities[row] = 0.0f;
      return clear_row(to, input_width);
    }
    const Columns<T> from = {input + row * input_width, bias == nullptr ? nullptr : bias + group * input_width, width};
    const float probability = probabilities == nullptr ? 1.0f : probabilities[row];
    VFloat products = {};
    for (int64_t column = 0; column < width; column += kLanes) {
      const int64_t left = width - column;
      const Elements elements = elements_at<kKind>(from, column, limits);
      const VFloat gradient = load_up_to(output_gradient + row * width + column, left);
      // a lane beyond the end of the row has gradient 0 and a finite element, so it adds 0
      products += gradient * elements.value;
      store_up_to(to + column, gradient * probability * elements.by_gate, left);
      if constexpr (is_gated(kKind)) {
        store_up_to(to + width + column, gradient * probability * elements.by_value, left);
      }
    }
    if (of_probabilities != nullptr) of_probabilities[row] = sum(products);
  });
}

// Calls `body` with a null pointer to a type whose kKind is the activation.
template <ExpertActivation kOne>
struct ActivationKind {
  static constexpr ExpertActivation kKind = kOne;
};
template <typename Body>
Status for_activation(double activation, const Body& body) {
  switch (static_cast<ExpertActivation>(static_cast<int>(activation))) {
    case ExpertActivation::kSwiglu:
      return body(static_cast<ActivationKind<ExpertActivation::kSwiglu>*>(nullptr));
    case ExpertActivation::kGeluTanh:
      return body(static_cast<ActivationKind<ExpertActivation::kGeluTanh>*>(nullptr));
    case ExpertActivation::kGeluErf:
      return body(static_cast<ActivationKind<ExpertActivation::kGeluErf>*>(nullptr));
    case ExpertActivation::kSquaredRelu:
      return body(static_cast<ActivationKind<ExpertActivation::kSquaredRelu>*>(nullptr));
    default:
      return body(static_cast<ActivationKind<ExpertActivation::kQuickGeglu>*>(nullptr));
  }
}

Status forward(const OpCall& call) {
  using Op = ExpertActivationForward;
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, call.tensor(Op::kOutput).rows()));
  return for_activation(call.attribute(Op::kActivation), [&](auto* kind) {
    using Kind = __typeof__(*kind);
    return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) {
      forward_of<Kind::kKind, __typeof__(*type)>(call);
      return ok_status();
    });
  });
}

Status backward(const OpCall& call) {
  using Op = ExpertActivationBackward;
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, call.tensor(Op::kOutputGradient).rows()));
  return for_activation(call.attribute(Op::kActivation), [&](auto* kind) {
    using Kind = __typeof__(*kind);
    return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) {
      backward_of<Kind::kKind, __typeof__(*type)>(call);
      return ok_status();
    });
  });
}

MTL_REGISTER_CPU("expert_activation_forward", forward);
MTL_REGISTER_CPU("expert_activation_backward", backward);

}  // namespace
}  // namespace mtl

#include "ops/expert_activation.h"

#include <cmath>

#include "backends/cpu/reference/element.h"
#include "core/index_check.h"

namespace mtl::reference {
namespace {

// The value and the derivative of an activation function.
struct Value {
  double value, derivative;
};

Value sigmoid_weighted(double x, double factor) {
  const double s = 1.0 / (1.0 + std::exp(-factor * x));
  return {x * s, s + factor * x * s * (1.0 - s)};
}

Value gelu_tanh(double x) {
  constexpr double kSqrt2OverPi = 0.7978845608028654, kCubic = 0.044715;
  const double t = std::tanh(kSqrt2OverPi * (x + kCubic * x * x * x));
  return {0.5 * x * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * kSqrt2OverPi * (1.0 + 3.0 * kCubic * x * x)};
}

Value gelu_erf(double x) {
  const double phi = 0.5 * (1.0 + std::erf(x * 0.7071067811865476));
  return {x * phi, phi + x * 0.3989422804014327 * std::exp(-0.5 * x * x)};
}

Value squared_relu(double x) {
  const double positive = x > 0.0 || std::isnan(x) ? x : 0.0;
  return {positive * positive, 2.0 * positive};
}

Value activate(ExpertActivation kind, double x) {
  switch (kind) {
    case ExpertActivation::kSwiglu:
      return sigmoid_weighted(x, 1.0);
    case ExpertActivation::kGeluTanh:
      return gelu_tanh(x);
    case ExpertActivation::kGeluErf:
      return gelu_erf(x);
    case ExpertActivation::kSquaredRelu:
      return squared_relu(x);
    default:
      return sigmoid_weighted(x, 1.702);
  }
}

// An element of the output before it is multiplied by its row's probability, and its derivatives with respect
// to the gate and to the value.
struct Element {
  double value, by_gate, by_value;
};

template <typename Op>
Element element_of(const OpCall& call, int64_t group, int64_t row, int64_t column, int64_t width) {
  const auto kind = static_cast<ExpertActivation>(call.integer(Op::kActivation));
  const int64_t input_width = call.tensor(Op::kInput).dim(-1);
  const auto operand = [&](int64_t at) {
    return get(call.tensor(Op::kInput), row * input_width + at) +
           (call.has(Op::kBias) ? get(call.tensor(Op::kBias), group * input_width + at) : 0.0);
  };
  if (!is_gated(kind)) {
    const Value x = activate(kind, operand(column));
    return {x.value, x.derivative, 0.0};
  }
  const double limit = call.attribute(Op::kClamp);
  double gate = operand(column), value = operand(width + column), gate_passes = 1.0, value_passes = 1.0;
  if (limit > 0.0) {
    gate_passes = gate > limit ? 0.0 : 1.0;
    value_passes = std::fabs(value) > limit ? 0.0 : 1.0;
    if (gate > limit) gate = limit;
    if (value > limit) value = limit;
    if (value < -limit) value = -limit;
  }
  const Value x = activate(kind, gate);
  const double shifted = value + call.attribute(Op::kLinearOffset);
  return {x.value * shifted, x.derivative * shifted * gate_passes, x.value * value_passes};
}

double probability(const OpCall& call, int probabilities, int64_t row) {
  return call.has(probabilities) ? get(call.tensor(probabilities), row) : 1.0;
}

// Returns the index of the group that contains a row. For a row after the last group, returns the number of
// groups.
int64_t group_of(const OpCall& call, int offsets, int64_t row) {
  int64_t group = 0;
  while (group + 1 < call.tensor(offsets).size() && call.data<int32_t>(offsets)[group + 1] <= row) ++group;
  return group;
}

Status forward(const OpCall& call) {
  using Op = ExpertActivationForward;
  const TensorView& output = call.tensor(Op::kOutput);
  const int64_t width = output.dim(-1), groups = call.tensor(Op::kOffsets).size() - 1;
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, output.rows()));
  for (int64_t row = 0; row < output.rows(); ++row) {
    const int64_t group = group_of(call, Op::kOffsets, row);
    for (int64_t f = 0; f < width; ++f) {
      const double value =
          group < groups ? element_of<Op>(call, group, row, f, width).value * probability(call, Op::kProbabilities, row) : 0.0;
      set(output, row * width + f, value);
    }
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = ExpertActivationBackward;
  const TensorView &input_gradient = call.tensor(Op::kInputGradient), &output_gradient = call.tensor(Op::kOutputGradient);
  const int64_t width = output_gradient.dim(-1), input_width = input_gradient.dim(-1),
                groups = call.tensor(Op::kOffsets).size() - 1;
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, output_gradient.rows()));
  for (int64_t row = 0; row < output_gradient.rows(); ++row) {
    const int64_t group = group_of(call, Op::kOffsets, row);
    const double p = probability(call, Op::kProbabilities, row);
    double probability_gradient = 0.0;
    for (int64_t f = 0; f < width; ++f) {
      const bool is_used = group < groups;
      const Element element = is_used ? element_of<Op>(call, group, row, f, width) : Element{0.0, 0.0, 0.0};
      const double gradient = is_used ? get(output_gradient, row * width + f) : 0.0;
      probability_gradient += gradient * element.value;
      set(input_gradient, row * input_width + f, gradient * p * element.by_gate);
      if (input_width > width) set(input_gradient, row * input_width + width + f, gradient * p * element.by_value);
    }
    if (call.has(Op::kProbabilitiesGradient)) set(call.tensor(Op::kProbabilitiesGradient), row, probability_gradient);
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("expert_activation_forward", forward);
MTL_REGISTER_REFERENCE("expert_activation_backward", backward);

}  // namespace
}  // namespace mtl::reference

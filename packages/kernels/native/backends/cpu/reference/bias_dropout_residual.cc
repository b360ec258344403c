#include "backends/cpu/reference/element.h"
#include "core/philox.h"
#include "ops/bias_dropout_residual.h"

namespace mtl::reference {
namespace {

// Returns the dropout factor of element `index` of an [S, B, H] tensor: 0, or 1 / (1 - probability).
// `samples` is the argument index of the samples tensor; the tensor of the rows' positions is the next
// argument.
double dropout_factor(const OpCall& call, const TensorView& shape, int samples, int64_t index) {
  using Op = BiasDropoutResidualForward;
  const double probability = call.attribute(Op::kProbability);
  if (probability == 0.0) return 1.0;
  const int64_t hidden = shape.dim(2), batch = shape.dim(1), row = index / hidden;
  const bool own = call.has(samples + 1);
  const int64_t position = own ? get_integer(call.tensor(samples + 1), row) : row / batch;
  const int64_t sample = get_integer(call.tensor(samples), own ? row : row % batch);
  const PhiloxKey key = {static_cast<uint32_t>(call.integer(Op::kKeyLow)),
                         static_cast<uint32_t>(call.integer(Op::kKeyHigh))};
  const uint32_t random =
      philox_element(key, index % hidden + call.integer(Op::kFirstColumn), position, sample, /*head=*/0);
  return random < dropout_threshold(probability) ? 0.0 : 1.0 / (1.0 - probability);
}

Status forward(const OpCall& call) {
  using Op = BiasDropoutResidualForward;
  const TensorView &output = call.tensor(Op::kOutput), &input = call.tensor(Op::kInput),
      &bias = call.tensor(Op::kBias), &residual = call.tensor(Op::kResidual);
  for (int64_t index = 0; index < output.size(); ++index) {
    double value = get(input, index) + (bias.present() ? get(bias, index % input.dim(2)) : 0.0);
    value *= dropout_factor(call, input, Op::kSamples, index);
    set(output, index, value + (residual.present() ? get(residual, index) : 0.0));
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = BiasDropoutResidualBackward;
  const TensorView &input_gradient = call.tensor(Op::kInputGradient),
      &output_gradient = call.tensor(Op::kOutputGradient);
  for (int64_t index = 0; index < input_gradient.size(); ++index) {
    set(input_gradient, index,
        get(output_gradient, index) * dropout_factor(call, output_gradient, Op::kSamples, index));
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("bias_dropout_residual_forward", forward);
MTL_REGISTER_REFERENCE("bias_dropout_residual_backward", backward);

}  // namespace
}  // namespace mtl::reference

#include "ops/grouped_bias.h"

#include "backends/cpu/reference/element.h"
#include "core/index_check.h"

namespace mtl::reference {
namespace {

double weight(const OpCall& call, int weights, int64_t row) {
  return call.has(weights) ? get(call.tensor(weights), row) : 1.0;
}

Status grouped_sum_rows(const OpCall& call) {
  using Op = GroupedSumRows;
  const TensorView &output = call.tensor(Op::kOutput), &input = call.tensor(Op::kInput);
  const int64_t width = input.dim(-1);
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, input.rows()));
  const int32_t* const offsets = call.data<int32_t>(Op::kOffsets);
  for (int64_t group = 0; group < output.dim(0); ++group) {
    for (int64_t n = 0; n < width; ++n) {
      double sum = call.flag(Op::kAccumulate) ? get(output, group * width + n) : 0.0;
      for (int64_t row = offsets[group]; row < offsets[group + 1]; ++row) {
        sum += weight(call, Op::kWeights, row) * get(input, row * width + n);
      }
      set(output, group * width + n, sum);
    }
  }
  return ok_status();
}

Status forward(const OpCall& call) {
  using Op = GroupedBiasForward;
  const TensorView &output = call.tensor(Op::kOutput), &input = call.tensor(Op::kInput), &bias = call.tensor(Op::kBias);
  const int64_t width = input.dim(-1);
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, input.rows()));
  const int32_t* const offsets = call.data<int32_t>(Op::kOffsets);
  for (int64_t group = 0; group < bias.dim(0); ++group) {
    for (int64_t row = offsets[group]; row < offsets[group + 1]; ++row) {
      for (int64_t n = 0; n < width; ++n) {
        set(output, row * width + n,
            get(input, row * width + n) + weight(call, Op::kProbabilities, row) * get(bias, group * width + n));
      }
    }
  }
  for (int64_t at = offsets[bias.dim(0)] * width; at < output.size(); ++at) set(output, at, 0.0);
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = GroupedBiasBackward;
  const TensorView &gradient = call.tensor(Op::kProbabilitiesGradient), &output_gradient = call.tensor(Op::kOutputGradient),
                   &bias = call.tensor(Op::kBias);
  const int64_t width = bias.dim(1);
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, gradient.size()));
  const int32_t* const offsets = call.data<int32_t>(Op::kOffsets);
  for (int64_t row = 0; row < gradient.size(); ++row) set(gradient, row, 0.0);
  for (int64_t group = 0; group < bias.dim(0); ++group) {
    for (int64_t row = offsets[group]; row < offsets[group + 1]; ++row) {
      double sum = 0.0;
      for (int64_t n = 0; n < width; ++n) sum += get(output_gradient, row * width + n) * get(bias, group * width + n);
      set(gradient, row, sum);
    }
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("grouped_sum_rows", grouped_sum_rows);
MTL_REGISTER_REFERENCE("grouped_bias_forward", forward);
MTL_REGISTER_REFERENCE("grouped_bias_backward", backward);

}  // namespace
}  // namespace mtl::reference

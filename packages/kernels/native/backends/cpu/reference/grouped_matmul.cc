#include "ops/grouped_matmul.h"

#include "backends/cpu/reference/element.h"
#include "core/index_check.h"

namespace mtl::reference {
namespace {

Status grouped_matmul(const OpCall& call) {
  using Op = GroupedMatmul;
  const TensorView &output = call.tensor(Op::kOutput), &input = call.tensor(Op::kInput), &weights = call.tensor(Op::kWeights);
  const auto [rows, groups, outputs, inputs] = grouped_matmul_sizes(call);
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, rows));
  const int32_t* const offsets = call.data<int32_t>(Op::kOffsets);
  const bool transposed = call.flag(Op::kTransposeWeights);
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t row = offsets[group]; row < offsets[group + 1]; ++row) {
      for (int64_t n = 0; n < outputs; ++n) {
        double sum = 0.0;
        for (int64_t k = 0; k < inputs; ++k) {
          const int64_t at = transposed ? n * inputs + k : k * outputs + n;
          sum += get(input, row * inputs + k) * get(weights, group * outputs * inputs + at);
        }
        set(output, row * outputs + n, sum);
      }
    }
  }
  for (int64_t at = offsets[groups] * outputs; at < rows * outputs; ++at) set(output, at, 0.0);
  return ok_status();
}

Status grouped_weight_gradient(const OpCall& call) {
  using Op = GroupedWeightGradient;
  const TensorView &gradient = call.tensor(Op::kWeightGradient), &output_gradient = call.tensor(Op::kOutputGradient),
                   &input = call.tensor(Op::kInput);
  const auto [rows, groups, outputs, inputs] = grouped_weight_gradient_sizes(call);
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, rows));
  const int32_t* const offsets = call.data<int32_t>(Op::kOffsets);
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t n = 0; n < outputs; ++n) {
      for (int64_t k = 0; k < inputs; ++k) {
        const int64_t at = (group * outputs + n) * inputs + k;
        double sum = call.flag(Op::kAccumulate) ? get(gradient, at) : 0.0;
        for (int64_t row = offsets[group]; row < offsets[group + 1]; ++row) {
          sum += get(output_gradient, row * outputs + n) * get(input, row * inputs + k);
        }
        set(gradient, at, sum);
      }
    }
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("grouped_matmul", grouped_matmul);
MTL_REGISTER_REFERENCE("grouped_weight_gradient", grouped_weight_gradient);

}  // namespace
}  // namespace mtl::reference

#include "backends/cpu/reference/element.h"
#include "core/index_check.h"
#include "ops/embedding.h"

namespace mtl::reference {
namespace {

Status forward(const OpCall& call) {
  using Op = EmbeddingForward;
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kIds, call.integer(Op::kNumRows)));
  const TensorView &output = call.tensor(Op::kOutput), &table = call.tensor(Op::kTable);
  const int64_t hidden = output.dim(-1);
  for (int64_t token = 0; token < output.rows(); ++token) {
    const int64_t row = get_integer(call.tensor(Op::kIds), token) - call.integer(Op::kFirstRow);
    const bool inside = row >= 0 && row < table.dim(0);
    for (int64_t h = 0; h < hidden; ++h) {
      const double before = call.flag(Op::kAccumulate) ? get(output, token * hidden + h) : 0.0;
      set(output, token * hidden + h, before + (inside ? get(table, row * hidden + h) : 0.0));
    }
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = EmbeddingBackward;
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kIds, call.integer(Op::kNumRows)));
  const TensorView &gradient = call.tensor(Op::kTableGradient), &output_gradient = call.tensor(Op::kOutputGradient);
  const int64_t hidden = gradient.dim(-1);
  for (int64_t token = 0; token < output_gradient.rows(); ++token) {
    const int64_t row = get_integer(call.tensor(Op::kIds), token) - call.integer(Op::kFirstRow);
    if (row < 0 || row >= gradient.dim(0)) continue;
    for (int64_t h = 0; h < hidden; ++h) {
      set(gradient, row * hidden + h, get(gradient, row * hidden + h) + get(output_gradient, token * hidden + h));
    }
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("embedding_forward", forward);
MTL_REGISTER_REFERENCE("embedding_backward", backward);

}  // namespace
}  // namespace mtl::reference

#include "backends/cpu/reference/element.h"
#include "core/row_layout.h"
#include "ops/elementwise.h"

namespace mtl::reference {
namespace {

// Returns the offset of element `index` in a contiguous tensor or a strided view.
int64_t element(const TensorView& tensor, int64_t index) {
  if (!tensor.is_strided) return index;
  return row_start(row_layout_of(tensor), index / tensor.dim(-1)) + index % tensor.dim(-1);
}

Status cast(const OpCall& call) {
  using Op = Cast;
  const TensorView &output = call.tensor(Op::kOutput), &input = call.tensor(Op::kInput);
  for (int64_t index = 0; index < output.size(); ++index) {
    set(output, element(output, index), get(input, element(input, index)));
  }
  return ok_status();
}

Status scale(const OpCall& call) {
  using Op = Scale;
  const TensorView &output = call.tensor(Op::kOutput), &input = call.tensor(Op::kInput);
  const bool accumulates = call.flag(Op::kAccumulate);
  for (int64_t index = 0; index < output.size(); ++index) {
    const double before = accumulates ? get(output, element(output, index)) : 0.0;
    set(output, element(output, index), before + call.attribute(Op::kFactor) * get(input, element(input, index)));
  }
  return ok_status();
}

Status add(const OpCall& call) {
  using Op = Add;
  for (int64_t index = 0; index < call.tensor(Op::kOutput).size(); ++index) {
    set(call.tensor(Op::kOutput), index, get(call.tensor(Op::kLeft), index) + get(call.tensor(Op::kRight), index));
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("cast", cast);
MTL_REGISTER_REFERENCE("scale", scale);
MTL_REGISTER_REFERENCE("add", add);

}  // namespace
}  // namespace mtl::reference

#include <cmath>

#include "backends/cpu/reference/element.h"
#include "ops/tanh.h"

namespace mtl::reference {
namespace {

Status forward(const OpCall& call) {
  using Op = TanhForward;
  for (int64_t index = 0; index < call.tensor(Op::kOutput).size(); ++index) {
    set(call.tensor(Op::kOutput), index, std::tanh(get(call.tensor(Op::kInput), index)));
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = TanhBackward;
  for (int64_t index = 0; index < call.tensor(Op::kInputGradient).size(); ++index) {
    const double output = get(call.tensor(Op::kOutput), index);
    set(call.tensor(Op::kInputGradient), index, get(call.tensor(Op::kOutputGradient), index) * (1.0 - output * output));
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("tanh_forward", forward);
MTL_REGISTER_REFERENCE("tanh_backward", backward);

}  // namespace
}  // namespace mtl::reference

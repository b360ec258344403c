#include <cmath>

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

Status forward(const OpCall& call) {
  for (int64_t index = 0; index < call.tensor(0).size(); ++index) {
    set(call.tensor(0), index, std::tanh(get(call.tensor(1), index)));
  }
  return ok_status();
}

Status backward(const OpCall& call) {
  for (int64_t index = 0; index < call.tensor(0).size(); ++index) {
    const double output = get(call.tensor(2), index);
    set(call.tensor(0), index, get(call.tensor(1), index) * (1.0 - output * output));
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("tanh_forward", forward);
MTL_REGISTER_REFERENCE("tanh_backward", backward);

}  // namespace
}  // namespace mtl::reference

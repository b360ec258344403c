#include "backends/cpu/reference/element.h"
#include "ops/elementwise.h"

namespace mtl::reference {
namespace {

Status cast(const OpCall& call) {
  using Op = Cast;
  for (int64_t index = 0; index < call.tensor(Op::kOutput).size(); ++index) {
    set(call.tensor(Op::kOutput), index, get(call.tensor(Op::kInput), index));
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
MTL_REGISTER_REFERENCE("add", add);

}  // namespace
}  // namespace mtl::reference

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

Status cast(const OpCall& call) {
  for (int64_t index = 0; index < call.tensor(0).size(); ++index) set(call.tensor(0), index, get(call.tensor(1), index));
  return ok_status();
}

Status add(const OpCall& call) {
  for (int64_t index = 0; index < call.tensor(0).size(); ++index) {
    set(call.tensor(0), index, get(call.tensor(1), index) + get(call.tensor(2), index));
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("cast", cast);
MTL_REGISTER_REFERENCE("add", add);

}  // namespace
}  // namespace mtl::reference

// cast: output = input, converted between floating dtypes (same dtype: a copy)
// add:  output = left + right, all of one floating dtype; output may be either
#include "core/validation.h"

namespace mtl {
namespace {

Status validate_cast(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_floating(call, 0));
  MTL_RETURN_IF_ERROR(expect_floating(call, 1));
  if (call.tensor(0).size() == call.tensor(1).size()) return ok_status();
  return argument_error(call, "%lld elements into %lld", static_cast<long long>(call.tensor(1).size()),
                        static_cast<long long>(call.tensor(0).size()));
}

Status validate_add(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_floating(call, 1));
  MTL_RETURN_IF_ERROR(expect_like(call, 0, 1));
  return expect_like(call, 2, 1);
}

MTL_REGISTER_OP(OpSchema{"cast", 1, {"output", "input"}, {}, validate_cast, nullptr});
MTL_REGISTER_OP(OpSchema{"add", 1, {"output", "left", "right"}, {}, validate_add, nullptr});

}  // namespace
}  // namespace mtl

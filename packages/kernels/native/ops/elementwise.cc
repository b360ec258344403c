// cast: output = input, converted between floating dtypes (same dtype: a copy)
// add:  output = left + right, all of one floating dtype; output may be either
#include "core/validation.h"
#include "ops/elementwise.h"

namespace mtl {
namespace {

Status validate_cast(const OpCall& call) {
  using Op = Cast;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kOutput));
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kInput));
  if (call.tensor(Op::kOutput).size() == call.tensor(Op::kInput).size()) return ok_status();
  return argument_error(call, "%lld elements into %lld", static_cast<long long>(call.tensor(Op::kInput).size()),
                        static_cast<long long>(call.tensor(Op::kOutput).size()));
}

Status validate_add(const OpCall& call) {
  using Op = Add;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kLeft));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kOutput, Op::kLeft));
  return expect_like(call, Op::kRight, Op::kLeft);
}

MTL_REGISTER_OP(OpSchema{"cast", 1, {"output", "input"}, {}, validate_cast, nullptr});
MTL_REGISTER_OP(OpSchema{"add", 1, {"output", "left", "right"}, {}, validate_add, nullptr});

}  // namespace
}  // namespace mtl

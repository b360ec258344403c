// philox_normal: output[r, c] = mean + standardDeviation * N(0, 1), from global coordinates alone
//
//   output [R, C]: rows rowOffset.. and columns columnOffset.. of a tensor with globalColumns columns, so
//   that any way of cutting a weight gives the same values. Element e = row * globalColumns + column takes
//   part e % 4 of Philox counter (e / 4 low, e / 4 high, 0, 0); words 0 and 1 make normals 0 and 1, words 2
//   and 3 normals 2 and 3 (Box and Muller 1958, in double on the host).
#include "core/validation.h"

namespace mtl {
namespace {

Status validate(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_floating(call, 0));
  MTL_RETURN_IF_ERROR(expect_rank(call, 0, 2, 2));
  if (call.integer(6) + call.tensor(0).dim(1) <= call.integer(4)) return ok_status();
  return argument_error(call, "columns %lld to %lld of %lld", static_cast<long long>(call.integer(6)),
                        static_cast<long long>(call.integer(6) + call.tensor(0).dim(1)),
                        static_cast<long long>(call.integer(4)));
}

MTL_REGISTER_OP(
    OpSchema{"philox_normal",
             1,
             {"output"},
             {"mean", "standardDeviation", "keyLow", "keyHigh", "globalColumns", "rowOffset", "columnOffset"},
             validate,
             nullptr});

}  // namespace
}  // namespace mtl

// philox_normal: output[r, c] = mean + standardDeviation * N(0, 1), depending only on global coordinates
//
//   output [R, C]: the rows from rowOffset on and the columns from columnOffset on of a tensor with
//   globalColumns columns, so that a weight has the same values for any sharding. Element
//   e = row * globalColumns + column uses part e % 4 of Philox counter (e / 4 low, e / 4 high, 0, 0): words 0
//   and 1 give normals 0 and 1, and words 2 and 3 give normals 2 and 3 (Box and Muller 1958, in double on the
//   host).
#include "core/validation.h"
#include "ops/philox_normal.h"

namespace mtl {
namespace {

Status validate(const OpCall& call) {
  using Op = PhiloxNormal;
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kOutput));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kOutput, 2, 2));
  if (call.integer(Op::kColumnOffset) +
      call.tensor(Op::kOutput).dim(1) <= call.integer(Op::kGlobalColumns)) return ok_status();
  return argument_error(call, "output has columns %lld to %lld (columnOffset and its width), expected globalColumns, "
                        "%lld, at most", static_cast<long long>(call.integer(Op::kColumnOffset)),
                        static_cast<long long>(call.integer(Op::kColumnOffset) + call.tensor(Op::kOutput).dim(1)),
                        static_cast<long long>(call.integer(Op::kGlobalColumns)));
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

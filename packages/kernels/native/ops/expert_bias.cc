// update_expert_bias: expertBias[e] += rate * sign(mean of counts - counts[e]), with sign(0) = 0. An expert
//                     with fewer rows than the mean is thus selected more often (Wang et al. 2024,
//                     2408.15664)
// add_counts:         counts[e] += offsets[e + 1] - offsets[e]
//
//   expertBias [E] float32, updated      counts [E] int64, updated by add_counts      offsets [E + 1] int32
//
// The mean is not computed: E * counts[e] is compared with the sum of all counts, in integers.
#include <cmath>

#include "core/validation.h"
#include "ops/expert_bias.h"

namespace mtl {
namespace {

Status validate_update(const OpCall& call) {
  using Op = UpdateExpertBias;
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kExpertBias, 1, 1));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kExpertBias, {DType::kFloat32}));
  MTL_RETURN_IF_ERROR(expect_same_shape(call, Op::kCounts, Op::kExpertBias));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kCounts, {DType::kInt64}));
  if (std::isfinite(call.attribute(Op::kRate))) return ok_status();
  return argument_error(call, "rate is %g, expected a number", call.attribute(Op::kRate));
}

Status validate_add(const OpCall& call) {
  using Op = AddCounts;
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kCounts, 1, 1));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kCounts, {DType::kInt64}));
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kOffsets, {call.tensor(Op::kCounts).size() + 1}));
  return expect_dtype(call, Op::kOffsets, {DType::kInt32});
}

MTL_REGISTER_OP(OpSchema{"update_expert_bias", 1, {"expertBias", "counts"}, {"rate"}, validate_update, nullptr});
MTL_REGISTER_OP(OpSchema{"add_counts", 1, {"counts", "offsets"}, {}, validate_add, nullptr});

}  // namespace
}  // namespace mtl

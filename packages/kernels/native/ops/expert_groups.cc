// group_by_expert: sorts the slots of all rows by expert, which gives the rows of each expert. The sort is
//                  stable: an expert's rows keep their order.
// drop_over_capacity: output = experts, with -1 in slots beyond their expert's capacity
//
//   experts, output  [T, k] int32: an expert, or -1 for a slot that was dropped; any other index is MTL_INDEX
//   offsets    [E + 1] int32: the rows of expert e are offsets[e] to offsets[e + 1], exclusive
//   positions  [T, k] int32: the grouped row of each slot, -1 if the slot was dropped
//   sources    [R] int32, R = T * k: the flat slot t * k + slot of each grouped row, -1 from offsets[E] on
//   probabilities [T, k] float32
//   numExperts: E;  capacity: the maximum number of slots that an expert keeps
//   byPosition: if 1, an expert keeps the slots of the first rows, else the slots with the largest
//               probabilities. If probabilities are equal, or a row has several slots of an expert,
//               it keeps the first slots
#include "core/validation.h"
#include "ops/expert_groups.h"

namespace mtl {
namespace {

Status expect_experts(const OpCall& call, int experts) {
  MTL_RETURN_IF_ERROR(expect_rank(call, experts, 2, 2));
  MTL_RETURN_IF_ERROR(expect_dtype(call, experts, {DType::kInt32}));
  if (call.tensor(experts).size() <= INT32_MAX) return ok_status();
  return argument_error(call, "experts has %lld slots, expected fewer than 2^31",
                        static_cast<long long>(call.tensor(experts).size()));
}

Status validate_group(const OpCall& call) {
  using Op = GroupByExpert;
  MTL_RETURN_IF_ERROR(expect_experts(call, Op::kExperts));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kPositions, Op::kExperts));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kSources, {DType::kInt32}));
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kSources, {call.tensor(Op::kExperts).size()}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kOffsets, {DType::kInt32}));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kOffsets, 1, 1));
  if (call.tensor(Op::kOffsets).size() >= 2) return ok_status();
  return argument_error(call, "offsets has %lld elements, expected one more than there are experts",
                        static_cast<long long>(call.tensor(Op::kOffsets).size()));
}

Status validate_drop(const OpCall& call) {
  using Op = DropOverCapacity;
  MTL_RETURN_IF_ERROR(expect_experts(call, Op::kExperts));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kOutput, Op::kExperts));
  MTL_RETURN_IF_ERROR(expect_same_shape(call, Op::kProbabilities, Op::kExperts));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kProbabilities, {DType::kFloat32, DType::kFloat64}));
  for (const int attribute : {Op::kNumExperts, Op::kCapacity}) {
    const double value = call.attribute(attribute), least = attribute == Op::kNumExperts ? 1 : 0;
    if (value >= least && value < 2147483648.0 && static_cast<double>(call.integer(attribute)) == value) continue;
    return argument_error(call, "%s is %g, expected a whole number from %g", attribute == Op::kNumExperts ? "numExperts" : "capacity",
                          value, least);
  }
  return expect_separate_output(call, Op::kOutput, {Op::kExperts});
}

MTL_REGISTER_OP(
    OpSchema{"group_by_expert", 3, {"offsets", "positions", "sources", "experts"}, {}, validate_group, nullptr});
MTL_REGISTER_OP(OpSchema{"drop_over_capacity",
                         1,
                         {"output", "experts", "probabilities"},
                         {"numExperts", "capacity", "byPosition"},
                         validate_drop,
                         nullptr});

}  // namespace
}  // namespace mtl

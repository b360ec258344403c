// precision_aware_adamw: `adamw` (see adamw.cc) with moments, master values and gradients in separate dtypes.
// The update is computed in float32, from moments before they are rounded.
//
//   parameter     [N] float32, updated; or, with `remainder`, bfloat16: the rounded values, with which the
//   model computes
//   remainder?    [2 N] uint8, updated: the lower 16 bits of each float32 value (see split_remainder)
//   modelParameter?  [N] bfloat16 or float16: the rounded copy of a float32 parameter
//   firstMoment, secondMoment  [N] float32, bfloat16 or float16, updated
//   firstScales?, secondScales?  [M] float32, updated, for moments in float16: the factor of each segment;
//   initially zero
//   gradient      [N] float32 or bfloat16; set to zero afterwards if `clearGradient`
//   scalars, segments  as in adamw; float16 moments of elements after the last segment must be zero
//
// A segment's scale is the smallest power of two for which its largest moment is at most 65504 / 2. This is
// the scale of Transformer Engine's FusedAdam, rounded up to a power of two. It does not change the digits of
// a moment above 2^-29 of the largest, so results hardly depend on how parameters are divided into segments.
//
// split_remainder: splits float32 values into the nearest bfloat16, ties away from zero, and the bits that it
// lacks
//   rounded [N] bfloat16;  remainder [2 N] uint8: the lower 16 bits of each value, lower byte first;  input [N] float32
//
//   The value's upper 16 bits are `rounded`, minus 1 if the remainder is 2^15 or more. NaN loses its payload.
//
// join_remainder: output [N] float32, the values from which `rounded` and `remainder` were split
#include "ops/precision_aware_adamw.h"

#include "core/validation.h"

namespace mtl {
namespace {

Status expect_scales(const OpCall& call, int moment, int scales) {
  MTL_RETURN_IF_ERROR(expect_dtype(call, moment, {DType::kFloat32, DType::kBFloat16, DType::kFloat16}));
  MTL_RETURN_IF_ERROR(expect_shape(call, moment, {call.tensor(PrecisionAwareAdamw::kGradient).size()}));
  const bool needs_scales = call.tensor(moment).dtype == DType::kFloat16;
  if (call.has(scales) != needs_scales) {
    return argument_error(call, needs_scales ? "moments in float16 need scales" : "only moments in float16 have scales");
  }
  if (!needs_scales) return ok_status();
  MTL_RETURN_IF_ERROR(expect_dtype(call, scales, {DType::kFloat32}));
  return expect_shape(call, scales, {call.tensor(PrecisionAwareAdamw::kSegments).dim(0)});
}

Status validate(const OpCall& call) {
  using Op = PrecisionAwareAdamw;
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kGradient, 1, 1));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kGradient, {DType::kFloat32, DType::kBFloat16}));
  const int64_t size = call.tensor(Op::kGradient).size();
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kParameter, {size}));
  if (call.has(Op::kRemainder)) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kParameter, {DType::kBFloat16}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kRemainder, {DType::kUint8}));
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kRemainder, {2 * size}));
    if (call.has(Op::kModelParameter)) return argument_error(call, "a parameter with remainders is the model's");
  } else {
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kParameter, {DType::kFloat32}));
  }
  if (call.has(Op::kModelParameter)) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kModelParameter, {DType::kBFloat16, DType::kFloat16}));
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kModelParameter, {size}));
  }
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kScalars, {5}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kScalars, {DType::kFloat32}));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kSegments, 2, 2));
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kSegments, {call.tensor(Op::kSegments).dim(0), 2}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kSegments, {DType::kInt64}));
  MTL_RETURN_IF_ERROR(expect_scales(call, Op::kFirstMoment, Op::kFirstScales));
  return expect_scales(call, Op::kSecondMoment, Op::kSecondScales);
}

Status expect_halves(const OpCall& call, int whole, int rounded, int remainder) {
  MTL_RETURN_IF_ERROR(expect_rank(call, whole, 1, 1));
  MTL_RETURN_IF_ERROR(expect_dtype(call, whole, {DType::kFloat32}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, rounded, {DType::kBFloat16}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, remainder, {DType::kUint8}));
  const int64_t size = call.tensor(whole).size();
  MTL_RETURN_IF_ERROR(expect_shape(call, rounded, {size}));
  return expect_shape(call, remainder, {2 * size});
}

Status validate_split(const OpCall& call) {
  using Op = SplitRemainder;
  return expect_halves(call, Op::kInput, Op::kRounded, Op::kRemainder);
}

Status validate_join(const OpCall& call) {
  using Op = JoinRemainder;
  return expect_halves(call, Op::kOutput, Op::kRounded, Op::kRemainder);
}

MTL_REGISTER_OP(OpSchema{"precision_aware_adamw",
                         8,
                         {"parameter", "remainder?", "modelParameter?", "firstMoment", "firstScales?", "secondMoment",
                          "secondScales?", "gradient", "scalars", "segments"},
                         {"beta1", "beta2", "epsilon", "weightDecay", "clearGradient"},
                         validate,
                         nullptr});
MTL_REGISTER_OP(OpSchema{"split_remainder", 2, {"rounded", "remainder", "input"}, {}, validate_split, nullptr});
MTL_REGISTER_OP(OpSchema{"join_remainder", 1, {"output", "rounded", "remainder"}, {}, validate_join, nullptr});

}  // namespace
}  // namespace mtl

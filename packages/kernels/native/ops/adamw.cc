// adamw: one AdamW step (Loshchilov and Hutter 2019) over all parameters at once, in flat buffers
//
//   parameter, firstMoment, secondMoment  [N] float32, updated;  modelParameter? [N] bfloat16 or float16: the rounded copy
//   gradient  [N] float32; set to zero afterwards when `clearGradient`, which saves a pass over memory
//   scalars   [4] float32 on the device, because they change every step: learning rate, 1 - beta1^t, 1 - beta2^t, and
//             the factor on the gradient (clipping and loss scale together)
//   segments  [M, 2] int64: the end (exclusive) of each parameter in the buffers, ascending, and whether it decays
//
//   p -= lr * weightDecay * p;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
#include "core/validation.h"

namespace mtl {
namespace {

enum { kParameter, kFirstMoment, kSecondMoment, kModelParameter, kGradient, kScalars, kSegments };

Status validate(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_rank(call, kParameter, 1, 1));
  for (const int tensor : {kParameter, kFirstMoment, kSecondMoment, kGradient}) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {DType::kFloat32}));
    MTL_RETURN_IF_ERROR(expect_shape(call, tensor, {call.tensor(kParameter).size()}));
  }
  if (call.has(kModelParameter)) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, kModelParameter, {DType::kBFloat16, DType::kFloat16}));
    MTL_RETURN_IF_ERROR(expect_shape(call, kModelParameter, {call.tensor(kParameter).size()}));
  }
  MTL_RETURN_IF_ERROR(expect_shape(call, kScalars, {4}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, kScalars, {DType::kFloat32}));
  MTL_RETURN_IF_ERROR(expect_rank(call, kSegments, 2, 2));
  MTL_RETURN_IF_ERROR(expect_shape(call, kSegments, {call.tensor(kSegments).dim(0), 2}));
  return expect_dtype(call, kSegments, {DType::kInt64});
}

MTL_REGISTER_OP(OpSchema{
    "adamw",
    5,
    {"parameter", "firstMoment", "secondMoment", "modelParameter?", "gradient", "scalars", "segments"},
    {"beta1", "beta2", "epsilon", "weightDecay", "clearGradient"},
    validate,
    nullptr});

}  // namespace
}  // namespace mtl

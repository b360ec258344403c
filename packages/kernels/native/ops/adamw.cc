// adamw: one AdamW step (Loshchilov and Hutter 2019) over all parameters at once, in flat buffers
//
//   parameter, firstMoment, secondMoment  [N] float32, updated;  modelParameter? [N] bfloat16 or float16: the
//   rounded copy
//   gradient  [N] float32; set to zero afterwards if `clearGradient`, which saves a pass over memory
//   scalars   [5] float32 on the device, because they change every step and some are computed there: learning
//             rate, 1 - beta1^t, 1 - beta2^t, the factor on the gradient (clipping and loss scale together),
//             and 0 if the update is skipped (a gradient was not finite); the gradient is cleared in any case
//   segments  [M, 2] int64: the end (exclusive) of each parameter in the buffers, ascending, and 1 if
//             weight decay applies to it
//
//   p -= lr * weightDecay * p;  m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2
//   p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
//
// adamw_scalars: computes the scalars of adamw from the gradients' sum of squares, without a copy to the host
//
//   scalars [5] float32, gradientNorm [1] float64;  squares [1] float64, of gradients multiplied by lossScale
//
//   gradientNorm = sqrt(squares) / lossScale;  the factor is min(1, clipGrad / (gradientNorm + 1e-6)) /
//   lossScale as in Megatron and PyTorch, or 1 / lossScale if clipGrad is 0; a norm that is not finite skips
//   the update
#include "core/validation.h"
#include "ops/adamw.h"

namespace mtl {
namespace {

Status validate(const OpCall& call) {
  using Op = Adamw;
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kParameter, 1, 1));
  for (const int tensor : {Op::kParameter, Op::kFirstMoment, Op::kSecondMoment, Op::kGradient}) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {DType::kFloat32}));
    MTL_RETURN_IF_ERROR(expect_shape(call, tensor, {call.tensor(Op::kParameter).size()}));
  }
  if (call.has(Op::kModelParameter)) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kModelParameter, {DType::kBFloat16, DType::kFloat16}));
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kModelParameter, {call.tensor(Op::kParameter).size()}));
  }
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kScalars, {5}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kScalars, {DType::kFloat32}));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kSegments, 2, 2));
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kSegments, {call.tensor(Op::kSegments).dim(0), 2}));
  return expect_dtype(call, Op::kSegments, {DType::kInt64});
}

Status validate_scalars(const OpCall& call) {
  using Op = AdamwScalars;
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kScalars, {5}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kScalars, {DType::kFloat32}));
  for (const int tensor : {Op::kGradientNorm, Op::kSquares}) {
    MTL_RETURN_IF_ERROR(expect_shape(call, tensor, {1}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {DType::kFloat64}));
  }
  return ok_status();
}

MTL_REGISTER_OP(OpSchema{"adamw_scalars",
                         2,
                         {"scalars", "gradientNorm", "squares"},
                         {"learningRate", "correction1", "correction2", "lossScale", "clipGrad"},
                         validate_scalars,
                         nullptr});
MTL_REGISTER_OP(OpSchema{
    "adamw",
    5,
    {"parameter", "firstMoment", "secondMoment", "modelParameter?", "gradient", "scalars", "segments"},
    {"beta1", "beta2", "epsilon", "weightDecay", "clearGradient"},
    validate,
    nullptr});

}  // namespace
}  // namespace mtl

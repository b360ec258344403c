// The elementwise parts of Muon (Jordan et al. 2024). The matmuls of Newton-Schulz are the op `matmul`.
// `scalars` [5] float32 come from adamw_scalars: the learning rate, two unused values, the factor on the
// gradient, and 0 if the step is skipped.
//
// muon_momentum: the exponential average of gradients, and the direction, which replaces the gradient
//
//   momentum, gradient [N] float32, updated; a skipped step changes neither
//
//   g = factor * gradient;  m += (1 - decay) * (g - m);  gradient = nesterov ? g + decay * (m - g) : m
//
// muon_normalize: output = input / max(sqrt(squares), epsilon), so that no singular value is above 1
//
//   input [...] float32;  output [...] float32 or bfloat16;  squares [1] float64: the sum of squares of input
//
// muon_polynomial: output = constant * I + linear * gram + quadratic * square, the factor in a
//                 step of Newton-Schulz
//
//   output, gram [M, M] float32 or bfloat16;  square [M, M] float32: gram @ gram
//
// muon_update: parameter -= learning rate * (weightDecay * parameter + direction)
//
//   parameter [N] float32, updated;  modelParameter? [N] bfloat16 or float16: the rounded copy
//   direction [N] float32, set to zero afterwards if `clearDirection`. This also happens in a skipped step,
//   which changes nothing else
#include "ops/muon.h"

#include "core/validation.h"

namespace mtl {
namespace {

Status expect_scalars(const OpCall& call, int scalars) {
  MTL_RETURN_IF_ERROR(expect_shape(call, scalars, {5}));
  return expect_dtype(call, scalars, {DType::kFloat32});
}

Status expect_vector(const OpCall& call, int tensor, int64_t size) {
  MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {DType::kFloat32}));
  return expect_shape(call, tensor, {size});
}

Status validate_momentum(const OpCall& call) {
  using Op = MuonMomentum;
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kMomentum, 1, 1));
  const int64_t size = call.tensor(Op::kMomentum).size();
  MTL_RETURN_IF_ERROR(expect_vector(call, Op::kMomentum, size));
  MTL_RETURN_IF_ERROR(expect_vector(call, Op::kGradient, size));
  return expect_scalars(call, Op::kScalars);
}

Status validate_normalize(const OpCall& call) {
  using Op = MuonNormalize;
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kOutput, {DType::kFloat32, DType::kBFloat16}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kInput, {DType::kFloat32}));
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kSquares, {1}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kSquares, {DType::kFloat64}));
  return expect_as_many(call, Op::kOutput, Op::kInput);
}

Status validate_polynomial(const OpCall& call) {
  using Op = MuonPolynomial;
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kGram, 2, 2));
  const int64_t size = call.tensor(Op::kGram).dim(0);
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kGram, {DType::kFloat32, DType::kBFloat16}));
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kGram, {size, size}));
  MTL_RETURN_IF_ERROR(expect_like(call, Op::kOutput, Op::kGram));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kSquare, {DType::kFloat32}));
  return expect_shape(call, Op::kSquare, {size, size});
}

Status validate_update(const OpCall& call) {
  using Op = MuonUpdate;
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kParameter, 1, 1));
  const int64_t size = call.tensor(Op::kParameter).size();
  MTL_RETURN_IF_ERROR(expect_vector(call, Op::kParameter, size));
  MTL_RETURN_IF_ERROR(expect_vector(call, Op::kDirection, size));
  if (call.has(Op::kModelParameter)) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kModelParameter, {DType::kBFloat16, DType::kFloat16}));
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kModelParameter, {size}));
  }
  return expect_scalars(call, Op::kScalars);
}

MTL_REGISTER_OP(OpSchema{
    "muon_momentum", 2, {"momentum", "gradient", "scalars"}, {"decay", "nesterov"}, validate_momentum, nullptr});
MTL_REGISTER_OP(
    OpSchema{"muon_normalize", 1, {"output", "input", "squares"}, {"epsilon"}, validate_normalize, nullptr});
MTL_REGISTER_OP(OpSchema{"muon_polynomial",
                         1,
                         {"output", "gram", "square"},
                         {"constant", "linear", "quadratic"},
                         validate_polynomial,
                         nullptr});
MTL_REGISTER_OP(OpSchema{"muon_update",
                         3,
                         {"parameter", "modelParameter?", "direction", "scalars"},
                         {"weightDecay", "clearDirection"},
                         validate_update,
                         nullptr});

}  // namespace
}  // namespace mtl

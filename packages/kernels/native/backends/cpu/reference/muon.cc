#include "ops/muon.h"

#include <cmath>

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

Status momentum(const OpCall& call) {
  using Op = MuonMomentum;
  const TensorView &average = call.tensor(Op::kMomentum), &gradient = call.tensor(Op::kGradient),
                   &scalars = call.tensor(Op::kScalars);
  const double decay = call.attribute(Op::kDecay);
  if (get(scalars, 4) == 0.0) return ok_status();
  for (int64_t index = 0; index < average.size(); ++index) {
    const double g = get(gradient, index) * get(scalars, 3);
    const double m = get(average, index) + (1.0 - decay) * (g - get(average, index));
    set(average, index, m);
    set(gradient, index, call.flag(Op::kNesterov) ? g + decay * (m - g) : m);
  }
  return ok_status();
}

Status normalize(const OpCall& call) {
  using Op = MuonNormalize;
  const double norm = std::sqrt(get(call.tensor(Op::kSquares), 0)), epsilon = call.attribute(Op::kEpsilon);
  const TensorView& input = call.tensor(Op::kInput);
  for (int64_t index = 0; index < input.size(); ++index) {
    set(call.tensor(Op::kOutput), index, get(input, index) / (norm < epsilon ? epsilon : norm));
  }
  return ok_status();
}

Status polynomial(const OpCall& call) {
  using Op = MuonPolynomial;
  const TensorView& gram = call.tensor(Op::kGram);
  const int64_t size = gram.dim(0);
  for (int64_t row = 0; row < size; ++row) {
    for (int64_t column = 0; column < size; ++column) {
      const int64_t at = row * size + column;
      const double value = call.attribute(Op::kLinear) * get(gram, at) +
                           call.attribute(Op::kQuadratic) * get(call.tensor(Op::kSquare), at);
      set(call.tensor(Op::kOutput), at, row == column ? value + call.attribute(Op::kConstant) : value);
    }
  }
  return ok_status();
}

Status update(const OpCall& call) {
  using Op = MuonUpdate;
  const TensorView &parameter = call.tensor(Op::kParameter), &scalars = call.tensor(Op::kScalars),
                   &direction = call.tensor(Op::kDirection);
  const double rate = get(scalars, 0);
  for (int64_t index = 0; index < parameter.size(); ++index) {
    if (get(scalars, 4) != 0.0) {
      const double p = get(parameter, index);
      set(parameter, index, p - rate * (call.attribute(Op::kWeightDecay) * p + get(direction, index)));
      if (call.has(Op::kModelParameter)) set(call.tensor(Op::kModelParameter), index, get(parameter, index));
    }
    if (call.flag(Op::kClearDirection)) set(direction, index, 0.0);
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("muon_momentum", momentum);
MTL_REGISTER_REFERENCE("muon_normalize", normalize);
MTL_REGISTER_REFERENCE("muon_polynomial", polynomial);
MTL_REGISTER_REFERENCE("muon_update", update);

}  // namespace
}  // namespace mtl::reference

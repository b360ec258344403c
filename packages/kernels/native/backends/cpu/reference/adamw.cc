#include <cmath>

#include "backends/cpu/reference/element.h"
#include "ops/adamw.h"

namespace mtl::reference {
namespace {

Status adamw(const OpCall& call) {
  using Op = Adamw;
  const TensorView &parameter = call.tensor(Op::kParameter), &scalars = call.tensor(Op::kScalars),
      &segments = call.tensor(Op::kSegments);
  const double rate = get(scalars, 0), correction1 = get(scalars, 1), correction2 = get(scalars, 2);
  const double beta1 = call.attribute(Op::kBeta1), beta2 = call.attribute(Op::kBeta2);
  const bool updates = get(scalars, 4) != 0.0;
  int64_t segment = 0;
  for (int64_t index = 0; index < parameter.size(); ++index) {
    if (!updates) {
      if (call.flag(Op::kClearGradient)) set(call.tensor(Op::kGradient), index, 0.0);
      continue;
    }
    while (segment < segments.dim(0) && get_integer(segments, 2 * segment) <= index) ++segment;
    const bool decays = segment < segments.dim(0) && get_integer(segments, 2 * segment + 1) != 0;
    const double gradient = get(call.tensor(Op::kGradient), index) * get(scalars, 3);
    const double m = beta1 * get(call.tensor(Op::kFirstMoment), index) + (1.0 - beta1) * gradient;
    const double v = beta2 * get(call.tensor(Op::kSecondMoment), index) + (1.0 - beta2) * gradient * gradient;
    double p = get(parameter, index);
    if (decays) p -= rate * call.attribute(Op::kWeightDecay) * p;
    p -= rate * (m / correction1) / (std::sqrt(v / correction2) + call.attribute(Op::kEpsilon));
    set(parameter, index, p);
    set(call.tensor(Op::kFirstMoment), index, m);
    set(call.tensor(Op::kSecondMoment), index, v);
    if (call.has(Op::kModelParameter)) set(call.tensor(Op::kModelParameter), index, get(parameter, index));
    if (call.flag(Op::kClearGradient)) set(call.tensor(Op::kGradient), index, 0.0);
  }
  return ok_status();
}

Status adamw_scalars(const OpCall& call) {
  using Op = AdamwScalars;
  const double loss_scale = call.attribute(Op::kLossScale), clip_grad = call.attribute(Op::kClipGrad);
  const double norm = std::sqrt(get(call.tensor(Op::kSquares), 0)) / loss_scale;
  const double clipping = clip_grad > 0.0 ? std::fmin(1.0, clip_grad / (norm + 1e-6)) : 1.0;
  for (int scalar = 0; scalar < 3; ++scalar) set(call.tensor(Op::kScalars), scalar, call.attribute(scalar));
  set(call.tensor(Op::kScalars), 3, std::isfinite(norm) ? clipping / loss_scale : 0.0);
  set(call.tensor(Op::kScalars), 4, std::isfinite(norm) ? 1.0 : 0.0);
  set(call.tensor(Op::kGradientNorm), 0, norm);
  return ok_status();
}

MTL_REGISTER_REFERENCE("adamw", adamw);
MTL_REGISTER_REFERENCE("adamw_scalars", adamw_scalars);

}  // namespace
}  // namespace mtl::reference

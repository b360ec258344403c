#include <cmath>

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

Status adamw(const OpCall& call) {
  const TensorView &parameter = call.tensor(0), &scalars = call.tensor(5), &segments = call.tensor(6);
  const double rate = get(scalars, 0), correction1 = get(scalars, 1), correction2 = get(scalars, 2);
  const double beta1 = call.attribute(0), beta2 = call.attribute(1);
  const bool updates = get(scalars, 4) != 0.0;
  int64_t segment = 0;
  for (int64_t index = 0; index < parameter.size(); ++index) {
    if (!updates) {
      if (call.flag(4)) set(call.tensor(4), index, 0.0);
      continue;
    }
    while (segment < segments.dim(0) && get_integer(segments, 2 * segment) <= index) ++segment;
    const bool decays = segment < segments.dim(0) && get_integer(segments, 2 * segment + 1) != 0;
    const double gradient = get(call.tensor(4), index) * get(scalars, 3);
    const double m = beta1 * get(call.tensor(1), index) + (1.0 - beta1) * gradient;
    const double v = beta2 * get(call.tensor(2), index) + (1.0 - beta2) * gradient * gradient;
    double p = get(parameter, index);
    if (decays) p -= rate * call.attribute(3) * p;
    p -= rate * (m / correction1) / (std::sqrt(v / correction2) + call.attribute(2));
    set(parameter, index, p);
    set(call.tensor(1), index, m);
    set(call.tensor(2), index, v);
    if (call.has(3)) set(call.tensor(3), index, get(parameter, index));
    if (call.flag(4)) set(call.tensor(4), index, 0.0);
  }
  return ok_status();
}

Status adamw_scalars(const OpCall& call) {
  const double loss_scale = call.attribute(3), maximum = call.attribute(4);
  const double norm = std::sqrt(get(call.tensor(2), 0)) / loss_scale;
  const double clipping = maximum > 0.0 ? std::fmin(1.0, maximum / (norm + 1e-6)) : 1.0;
  for (int scalar = 0; scalar < 3; ++scalar) set(call.tensor(0), scalar, call.attribute(scalar));
  set(call.tensor(0), 3, std::isfinite(norm) ? clipping / loss_scale : 0.0);
  set(call.tensor(0), 4, std::isfinite(norm) ? 1.0 : 0.0);
  set(call.tensor(1), 0, norm);
  return ok_status();
}

MTL_REGISTER_REFERENCE("adamw", adamw);
MTL_REGISTER_REFERENCE("adamw_scalars", adamw_scalars);

}  // namespace
}  // namespace mtl::reference

#include <cmath>

#include "backends/cpu/reference/element.h"
#include "core/philox.h"

namespace mtl::reference {
namespace {

Status philox_normal(const OpCall& call) {
  const TensorView& output = call.tensor(0);
  const PhiloxKey key = {static_cast<uint32_t>(call.integer(2)), static_cast<uint32_t>(call.integer(3))};
  for (int64_t index = 0; index < output.size(); ++index) {
    const int64_t row = index / output.dim(1) + call.integer(5), column = index % output.dim(1) + call.integer(6);
    const int64_t element = row * call.integer(4) + column;
    const PhiloxBlock block =
        philox(key, static_cast<uint32_t>(element / 4), static_cast<uint32_t>((element / 4) >> 32), 0, 0);
    const int pair = static_cast<int>(element % 4 / 2) * 2;
    const double radius = std::sqrt(-2.0 * std::log((block.words[pair] + 1.0) / 4294967296.0));
    const double angle = 2.0 * std::acos(-1.0) * block.words[pair + 1] / 4294967296.0;
    const double normal = radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
    set(output, index, call.attribute(0) + call.attribute(1) * normal);
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("philox_normal", philox_normal);

}  // namespace
}  // namespace mtl::reference

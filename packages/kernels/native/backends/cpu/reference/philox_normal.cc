#include <cmath>

#include "backends/cpu/reference/element.h"
#include "core/philox.h"
#include "ops/philox_normal.h"

namespace mtl::reference {
namespace {

Status philox_normal(const OpCall& call) {
  using Op = PhiloxNormal;
  const TensorView& output = call.tensor(Op::kOutput);
  const PhiloxKey key = {static_cast<uint32_t>(call.integer(Op::kKeyLow)),
                         static_cast<uint32_t>(call.integer(Op::kKeyHigh))};
  for (int64_t index = 0; index < output.size(); ++index) {
    const int64_t row = index / output.dim(1) + call.integer(Op::kRowOffset),
        column = index % output.dim(1) + call.integer(Op::kColumnOffset);
    const int64_t element = row * call.integer(Op::kGlobalColumns) + column;
    const PhiloxBlock block =
        philox(key, static_cast<uint32_t>(element / 4), static_cast<uint32_t>((element / 4) >> 32), 0, 0);
    const int pair = static_cast<int>(element % 4 / 2) * 2;
    const double radius = std::sqrt(-2.0 * std::log((block.words[pair] + 1.0) / 4294967296.0));
    const double angle = 2.0 * std::acos(-1.0) * block.words[pair + 1] / 4294967296.0;
    const double normal = radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
    set(output, index, call.attribute(Op::kMean) + call.attribute(Op::kStandardDeviation) * normal);
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("philox_normal", philox_normal);

}  // namespace
}  // namespace mtl::reference

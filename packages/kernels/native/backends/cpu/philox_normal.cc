#include "backends/cpu/philox_normal.h"

#include <cmath>

#include "backends/cpu/reference/element.h"
#include "backends/cpu/threads.h"
#include "core/philox.h"
#include "ops/philox_normal.h"

namespace mtl {
namespace {

// Returns one of the four normally distributed numbers that are computed from a Philox block. `lane`, from 0
// to 3, selects it.
double normal_of(const PhiloxBlock& block, int lane) {
  const double u1 = (block.words[lane & 2] + 1.0) / 4294967296.0;  // (0, 1]: its logarithm is finite
  const double angle = 2.0 * 3.141592653589793 * (block.words[(lane & 2) + 1] / 4294967296.0);
  return std::sqrt(-2.0 * std::log(u1)) * ((lane & 1) == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace

Status philox_normal_on_host(const OpCall& call) {
  using Op = PhiloxNormal;
  const TensorView& output = call.tensor(Op::kOutput);
  const double mean = call.attribute(Op::kMean), deviation = call.attribute(Op::kStandardDeviation);
  const PhiloxKey key = {static_cast<uint32_t>(call.integer(Op::kKeyLow)),
                         static_cast<uint32_t>(call.integer(Op::kKeyHigh))};
  const int64_t rows = output.dim(0), columns = output.dim(1);
  for_each(rows, rows * columns, [&](int64_t row) {
    PhiloxBlock block = {};
    int64_t current = -1;
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t element = (row + call.integer(Op::kRowOffset)) * call.integer(Op::kGlobalColumns) + column +
          call.integer(Op::kColumnOffset);
      if (element / 4 != current) {
        current = element / 4;
        block = philox(key, static_cast<uint32_t>(current), static_cast<uint32_t>(current >> 32), 0, 0);
      }
      reference::set(output, row * columns + column, mean + deviation * normal_of(block, static_cast<int>(element % 4)));
    }
  });
  return ok_status();
}

static const CpuKernelRegistration cpu_registration("philox_normal", nullptr, philox_normal_on_host);

}  // namespace mtl

#include "ops/rotary_embedding.h"

#include "backends/cpu/reference/element.h"
#include "core/index_check.h"
#include "core/row_layout.h"

namespace mtl::reference {
namespace {

Status run(const OpCall& call) {
  using Op = RotaryEmbedding;
  const TensorView &input = call.tensor(Op::kInput), &output = call.tensor(Op::kOutput), &table = call.tensor(Op::kTable),
                   &positions = call.tensor(Op::kPositions);
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kPositions, table.dim(0)));
  const RowLayout from = row_layout_of(input), to = row_layout_of(output);
  const int64_t rotated = table.dim(1), half = rotated / 2;
  const bool interleaved = call.flag(Op::kInterleaved);
  const double sign = call.flag(Op::kInverse) ? -1.0 : 1.0;
  for (int64_t row = 0; row < input.rows(); ++row) {
    const int64_t position = get_integer(positions, row / (input.rows() / positions.size()));
    const int64_t read = row_start(from, row), write = row_start(to, row);
    for (int64_t i = 0; i < half; ++i) {
      const int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + half;
      const double cosine = get(table, position * rotated + i), sine = sign * get(table, position * rotated + half + i);
      const double a = get(input, read + first), b = get(input, read + second);
      set(output, write + first, a * cosine - b * sine);
      set(output, write + second, a * sine + b * cosine);
    }
    for (int64_t d = rotated; d < input.dim(-1); ++d) set(output, write + d, get(input, read + d));
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("rotary_embedding", run);

}  // namespace
}  // namespace mtl::reference

#include "backends/cpu/reference/element.h"
#include "core/index_check.h"
#include "ops/permute_rows.h"

namespace mtl::reference {
namespace {

Status permute_rows(const OpCall& call) {
  using Op = PermuteRows;
  const TensorView &output = call.tensor(Op::kOutput), &input = call.tensor(Op::kInput), &sources = call.tensor(Op::kSources);
  const int64_t width = output.dim(-1), top_k = call.integer(Op::kTopK);
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kSources, input.rows() * top_k, -1));
  for (int64_t row = 0; row < output.rows(); ++row) {
    const int64_t source = get_integer(sources, row);
    for (int64_t h = 0; h < width; ++h) set(output, row * width + h, source < 0 ? 0.0 : get(input, source / top_k * width + h));
  }
  return ok_status();
}

Status combine_rows(const OpCall& call) {
  using Op = CombineRows;
  const TensorView &output = call.tensor(Op::kOutput), &rows = call.tensor(Op::kRows), &positions = call.tensor(Op::kPositions);
  const int64_t width = output.dim(-1), slots = positions.dim(1);
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kPositions, rows.rows(), -1));
  for (int64_t row = 0; row < output.rows(); ++row) {
    for (int64_t h = 0; h < width; ++h) {
      double sum = 0.0;
      for (int64_t slot = 0; slot < slots; ++slot) {
        const int64_t position = get_integer(positions, row * slots + slot);
        if (position >= 0) sum += get(rows, position * width + h);
      }
      set(output, row * width + h, sum);
    }
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("permute_rows", permute_rows);
MTL_REGISTER_REFERENCE("combine_rows", combine_rows);

}  // namespace
}  // namespace mtl::reference

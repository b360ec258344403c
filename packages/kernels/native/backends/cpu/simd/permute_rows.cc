#include "ops/permute_rows.h"

#include <string.h>

#include "backends/cpu/simd/simd.h"
#include "core/index_check.h"

namespace mtl {
namespace {

Status permute_rows(const OpCall& call) {
  using Op = PermuteRows;
  const TensorView& output = call.tensor(Op::kOutput);
  const int64_t rows = output.rows(), width = output.dim(-1), top_k = call.integer(Op::kTopK);
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kSources, call.tensor(Op::kInput).rows() * top_k, -1));
  return for_floating(output.dtype, [&](auto* type) {
    using T = __typeof__(*type);
    T* const to = call.data<T>(Op::kOutput);
    const T* const from = call.data<T>(Op::kInput);
    const int32_t* const sources = call.data<int32_t>(Op::kSources);
    const size_t bytes = static_cast<size_t>(width) * sizeof(T);
    for_each(rows, rows * width, [&](int64_t row) {
      if (sources[row] < 0) {
        memset(static_cast<void*>(to + row * width), 0, bytes);
      } else {
        memcpy(static_cast<void*>(to + row * width), from + sources[row] / top_k * width, bytes);
      }
    });
    return ok_status();
  });
}

Status combine_rows(const OpCall& call) {
  using Op = CombineRows;
  const TensorView& output = call.tensor(Op::kOutput);
  const int64_t rows = output.rows(), width = output.dim(-1), slots = call.tensor(Op::kPositions).dim(1);
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kPositions, call.tensor(Op::kRows).rows(), -1));
  return for_floating(output.dtype, [&](auto* type) {
    using T = __typeof__(*type);
    T* const to = call.data<T>(Op::kOutput);
    const T* const from = call.data<T>(Op::kRows);
    const int32_t* const positions = call.data<int32_t>(Op::kPositions);
    for_each(rows, rows * width * slots, [&](int64_t row) {
      const int32_t* const of_row = positions + row * slots;
      for (int64_t h = 0; h < width; h += kLanes) {
        const int64_t left = width - h;
        VFloat sum = {};
        for (int64_t slot = 0; slot < slots; ++slot) {
          if (of_row[slot] >= 0) sum += load_up_to(from + of_row[slot] * width + h, left);
        }
        store_up_to(to + row * width + h, sum, left);
      }
    });
    return ok_status();
  });
}

MTL_REGISTER_CPU("permute_rows", permute_rows);
MTL_REGISTER_CPU("combine_rows", combine_rows);

}  // namespace
}  // namespace mtl

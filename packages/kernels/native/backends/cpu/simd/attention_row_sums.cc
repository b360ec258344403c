#include "ops/attention_row_sums.h"

#include "backends/cpu/simd/attention_tiles.h"

namespace mtl {
namespace {

template <typename Output, typename T>
MTL_INLINE float products(const Output* output, const T* gradient, int64_t size) {
  VFloat total = {};
  for (int64_t d = 0; d < size; d += kLanes) total += load_up_to(output + d, size - d) * load_up_to(gradient + d, size - d);
  return sum(total);
}

template <typename Output, typename T>
void sum_rows(const OpCall& call) {
  using Op = AttentionRowSums;
  const SummedRows rows = summed_rows_of(call);
  const Output* const output = call.data<Output>(Op::kOutput);
  const T* const gradient = call.data<T>(Op::kOutputGradient);
  float* const row_sums = call.data<float>(Op::kRowSums);
  // each task computes one head, because a head's sums are neighbours in memory
  for_each(rows.heads, rows.count() * rows.head_size, [&](int64_t head) {
    for (int64_t position = 0; position < rows.positions; ++position) {
      const int64_t first = (position * rows.heads + head) * rows.head_size;
      row_sums[head * rows.positions + position] = products(output + first, gradient + first, rows.head_size);
    }
  });
}

Status run(const OpCall& call) {
  using Op = AttentionRowSums;
  return for_floating(call.tensor(Op::kOutputGradient).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    if (call.tensor(Op::kOutput).dtype == DType::kFloat32) {
      sum_rows<float, T>(call);
    } else {
      sum_rows<T, T>(call);
    }
    return ok_status();
  });
}

MTL_REGISTER_CPU("attention_row_sums", run);

}  // namespace
}  // namespace mtl

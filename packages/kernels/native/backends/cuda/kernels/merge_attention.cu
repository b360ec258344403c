// merge_attention: one warp per row. Bound by memory.
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/dispatch.h"
#include "ops/merge_attention.h"

namespace mtl::cuda {
namespace {

constexpr int kRowsOfBlock = 8;

template <int N>
__global__ void merge_attention_kernel(float* output, float* log_sum_exp, const float* part_output, const float* part_log_sum_exp,
                                       MergedRows rows) {
  const int64_t row = int64_t{blockIdx.x} * kRowsOfBlock + threadIdx.x / 32;
  if (row >= rows.count) return;  // all lanes of a warp return together
  const MergedStatistics at = statistics_of_row(rows, row);
  const float whole = log_sum_exp[at.whole], part = part_log_sum_exp[at.part];
  // a factor is 0 where e^(difference) overflows
  const float taken = 1.0f / (1.0f + expf(whole - part)), kept = 1.0f / (1.0f + expf(part - whole));
  const int64_t first = row * rows.head_size;
  for (int64_t d = int64_t{threadIdx.x % 32} * N; d < rows.head_size; d += 32 * N) {
    float values[N], others[N];
    load(values, output + first + d);
    load(others, part_output + first + d);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = kept * values[i] + taken * others[i];
    store(output + first + d, values);
  }
  __syncwarp();  // all lanes have read the statistics
  if (threadIdx.x % 32 == 0) log_sum_exp[at.whole] = (part > whole ? part : whole) + log1pf(expf(-fabsf(part - whole)));
}

Status run(const OpCall& call) {
  using Op = MergeAttention;
  if (call.tensor(Op::kOutput).dtype != DType::kFloat32) {
    return error_status("MTL_DTYPE", "%s: float64 is computed on the reference device only", call.op);
  }
  const MergedRows rows = merged_rows_of(call);
  float* const output = call.data<float>(Op::kOutput);
  const float* const part_output = call.data<float>(Op::kPartOutput);
  return for_width<float>(is_packed<float>(rows.head_size, {output, part_output}), [&](auto elements) {
    constexpr int N = decltype(elements)::value;
    MTL_RUN_KERNEL(call, (merge_attention_kernel<N>), grid_of(ceiling(rows.count, kRowsOfBlock), 32 * kRowsOfBlock), output,
                   call.data<float>(Op::kLogSumExp), part_output, call.data<float>(Op::kPartLogSumExp), rows);
    return ok_status();
  });
}

MTL_REGISTER_CUDA("merge_attention", run);

}  // namespace
}  // namespace mtl::cuda

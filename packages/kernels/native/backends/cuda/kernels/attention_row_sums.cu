// attention_row_sums. Bound by memory: each lane reads one or two 16-byte accesses of a row, and a row uses
// only the lanes that it needs, so that a warp processes several rows.
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/dispatch.h"
#include "ops/attention_row_sums.h"

namespace mtl::cuda {
namespace {

constexpr int kRowThreads = 128;

template <typename T, typename Output, int kLanes, int N>
__global__ void __launch_bounds__(kRowThreads)
    attention_row_sums_kernel(float* row_sums, const Output* output, const T* output_gradient, SummedRows rows) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kLanes;
  const int64_t row = int64_t{blockIdx.x} * (kRowThreads / kLanes) + thread / kLanes;
  float sum = 0.0f;
  if (row < rows.count()) {
#pragma unroll 1
    for (int64_t d = lane * N; d < rows.head_size; d += kLanes * N) {
      float value[N], gradient[N];
      load(value, output + row * rows.head_size + d);
      load(gradient, output_gradient + row * rows.head_size + d);
#pragma unroll
      for (int i = 0; i < N; ++i) sum += value[i] * gradient[i];
    }
  }
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, step);
  if (row < rows.count() && lane == 0) row_sums[rows.sum_at(row)] = sum;
}

template <typename T, typename Output, int kLanes, int N>
Status run_lanes(const OpCall& call, const SummedRows& rows) {
  using Op = AttentionRowSums;
  MTL_RUN_KERNEL(call, (attention_row_sums_kernel<T, Output, kLanes, N>), grid_of(ceiling(rows.count(), kRowThreads / kLanes), kRowThreads),
                 call.data<float>(Op::kRowSums), call.data<const Output>(Op::kOutput), call.data<const T>(Op::kOutputGradient), rows);
  return ok_status();
}

template <typename T, typename Output>
Status run_dtypes(const OpCall& call) {
  using Op = AttentionRowSums;
  const SummedRows rows = summed_rows_of(call);
  constexpr int N = kPack<T>;
  if (!is_packed<T>(rows.head_size, {call.data<const T>(Op::kOutputGradient)}) || !is_aligned(call.tensor(Op::kOutput).data)) {
    return run_lanes<T, Output, 32, 1>(call, rows);
  }
  if (rows.head_size <= 8 * N) return run_lanes<T, Output, 8, N>(call, rows);
  return rows.head_size <= 16 * N ? run_lanes<T, Output, 16, N>(call, rows) : run_lanes<T, Output, 32, N>(call, rows);
}

Status run(const OpCall& call) {
  using Op = AttentionRowSums;
  return for_floating(call, call.tensor(Op::kOutputGradient).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return call.tensor(Op::kOutput).dtype == DType::kFloat32 ? run_dtypes<T, float>(call) : run_dtypes<T, T>(call);
  });
}

MTL_REGISTER_CUDA("attention_row_sums", run);

}  // namespace
}  // namespace mtl::cuda

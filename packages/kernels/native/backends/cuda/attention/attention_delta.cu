// delta [B, A, S], with packed samples [A, T]: the sum over d of output times its gradient, which the
// softmax's gradient subtracts (Dao 2023, "FlashAttention-2", algorithm 2, line 4). Bound by memory: a row is
// read in one or two 16-byte accesses by as many lanes as it needs, so that a warp processes several rows.
#include "backends/cuda/attention/arguments.h"
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/values.h"

namespace mtl::cuda {
namespace {

constexpr int kDeltaThreads = 128;

template <typename T, typename Output, int kLanes, int N>
__global__ void __launch_bounds__(kDeltaThreads)
    attention_delta_kernel(float* delta, const Output* output, const T* output_gradient, int64_t num_rows, int heads_of_batch,
                           int sequence, int head_size) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kLanes;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kDeltaThreads / kLanes) + thread / kLanes;  // [S, B, A]
  float sum = 0.0f;
  if (row < num_rows) {
#pragma unroll 1
    for (int d = lane * N; d < head_size; d += kLanes * N) {
      float value[N], gradient[N];
      load(value, output + row * head_size + d);
      load(gradient, output_gradient + row * head_size + d);
#pragma unroll
      for (int i = 0; i < N; ++i) sum += value[i] * gradient[i];
    }
  }
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, step);
  if (row < num_rows && lane == 0) delta[row % heads_of_batch * sequence + row / heads_of_batch] = sum;
}

template <typename T, typename Output, int kLanes, int N>
cudaError_t launch_rows(const AttentionBackwardCall& call) {
  const AttentionProblem& problem = call.problem;
  // packed samples are treated as one sample of T positions here
  const bool packed = problem.starts != nullptr;
  const int64_t heads_of_batch = (packed ? 1 : problem.batch) * problem.heads;
  const int64_t sequence = packed ? problem.query_rows : problem.num_queries, num_rows = heads_of_batch * sequence;
  constexpr int kRows = kDeltaThreads / kLanes;
  const Launch how = {dim3(static_cast<unsigned>((num_rows + kRows - 1) / kRows)), kDeltaThreads, 0, call.stream};
  constexpr auto kernel = attention_delta_kernel<T, Output, kLanes, N>;
  return MTL_LAUNCH(kernel, how, call.delta, static_cast<const Output*>(problem.output.data),
                    static_cast<const T*>(problem.output_gradient.data), num_rows, static_cast<int>(heads_of_batch), static_cast<int>(sequence),
                    static_cast<int>(problem.head_size));
}

template <typename T, typename Output>
cudaError_t launch_dtypes(const AttentionBackwardCall& call) {
  constexpr int N = kPack<T>;
  const AttentionProblem& problem = call.problem;
  const int64_t width = problem.head_size;
  if (width % N != 0 || !is_aligned(problem.output.data) || !is_aligned(problem.output_gradient.data)) {
    return launch_rows<T, Output, 32, 1>(call);
  }
  if (width <= 8 * N) return launch_rows<T, Output, 8, N>(call);
  return width <= 16 * N ? launch_rows<T, Output, 16, N>(call) : launch_rows<T, Output, 32, N>(call);
}

template <typename T>
cudaError_t launch_dtype(const AttentionBackwardCall& call) {
  return call.problem.output.dtype == DType::kFloat32 ? launch_dtypes<T, float>(call) : launch_dtypes<T, T>(call);
}

}  // namespace

cudaError_t launch_attention_delta(const AttentionBackwardCall& call) {
  if (call.problem.dtype == DType::kBFloat16) return launch_dtype<__nv_bfloat16>(call);
  return call.problem.dtype == DType::kFloat16 ? launch_dtype<__half>(call) : launch_dtype<float>(call);
}

}  // namespace mtl::cuda

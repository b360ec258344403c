// delta [B, A, S], of packed samples [A, T]: sum over d of output times its gradient, which is what the
// softmax's gradient subtracts (Dao 2023, "FlashAttention-2", algorithm 2, line 4). One warp a row; memory is
// all that counts.
#include "cuda/attention/arguments.h"
#include "cuda/attention/tiles.cuh"

namespace mtl::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kThreads)
    attention_delta_kernel(float* delta, const T* output, const T* output_gradient, int64_t num_rows, int heads_of_batch,
                           int sequence, int head_size) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;  // [S, B, A]
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= num_rows) return;
  float sum = 0.0f;
  for (int d = lane; d < head_size; d += 32) {
    sum += Numbers<T>::widen(output[row * head_size + d]) * Numbers<T>::widen(output_gradient[row * head_size + d]);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) delta[row % heads_of_batch * sequence + row / heads_of_batch] = sum;
}

template <typename T>
cudaError_t launch_dtype(const AttentionBackward& call) {
  const AttentionProblem& problem = call.problem;
  // packed samples are one sample of T positions here
  const bool packed = problem.starts != nullptr;
  const int64_t heads_of_batch = (packed ? 1 : problem.batch) * problem.heads;
  const int64_t sequence = packed ? problem.rows : problem.sequence, num_rows = heads_of_batch * sequence;
  const Launch how = {dim3(static_cast<unsigned>((num_rows + kWarps - 1) / kWarps)), kThreads, 0, call.stream};
  return MTL_LAUNCH(attention_delta_kernel<T>, how, call.delta, static_cast<const T*>(call.output),
                    static_cast<const T*>(call.output_gradient), num_rows, static_cast<int>(heads_of_batch),
                    static_cast<int>(sequence), static_cast<int>(problem.head_size));
}

}  // namespace

cudaError_t launch_attention_delta(const AttentionBackward& call) {
  if (call.dtype == DType::kBFloat16) return launch_dtype<__nv_bfloat16>(call);
  return call.dtype == DType::kFloat16 ? launch_dtype<__half>(call) : launch_dtype<float>(call);
}

}  // namespace mtl::cuda

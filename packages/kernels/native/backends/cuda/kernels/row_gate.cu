// row_gate_forward and row_gate_backward: one block computes one row.
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/dispatch.h"
#include "ops/row_gate.h"

namespace mtl::cuda {
namespace {

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

template <typename T, int N>
__global__ void forward_kernel(T* output, const T* input, const float* logits, int64_t hidden) {
  const int64_t start = int64_t{blockIdx.x} * hidden;
  const float gate = sigmoid(logits[blockIdx.x]);
  for (int64_t h = int64_t{threadIdx.x} * N; h < hidden; h += int64_t{blockDim.x} * N) {
    float values[N];
    load(values, input + start + h);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] *= gate;
    store(output + start + h, values);
  }
}

template <typename T, int N>
__global__ void backward_kernel(T* input_gradient, float* logits_gradient, const T* output_gradient, const T* input,
                                const float* logits, int64_t hidden) {
  MTL_SHARED(float, shared, [kMaxWarps]);
  const int64_t start = int64_t{blockIdx.x} * hidden;
  const float gate = sigmoid(logits[blockIdx.x]);
  float products = 0.0f;
  for (int64_t h = int64_t{threadIdx.x} * N; h < hidden; h += int64_t{blockDim.x} * N) {
    float gradient[N], values[N];
    load(gradient, output_gradient + start + h);
    load(values, input + start + h);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      products += gradient[i] * values[i];
      gradient[i] *= gate;
    }
    store(input_gradient + start + h, gradient);
  }
  const float total = block_reduce<Sum>(products, shared);
  if (threadIdx.x == 0) logits_gradient[blockIdx.x] = gate * (1.0f - gate) * total;
}

Status forward(const OpCall& call) {
  using Op = RowGateForward;
  return for_floating(call, call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t rows = call.tensor(Op::kInput).rows(), hidden = call.tensor(Op::kInput).dim(-1);
    T* const output = call.data<T>(Op::kOutput);
    const T* const input = call.data<T>(Op::kInput);
    return for_width<T>(is_packed<T>(hidden, {output, input}), [&](auto elements) {
      constexpr int N = decltype(elements)::value;
      MTL_RUN_KERNEL(call, (forward_kernel<T, N>), grid_of(rows, row_threads(ceiling(hidden, N))), output, input,
                     call.data<float>(Op::kLogits), hidden);
      return ok_status();
    });
  });
}

Status backward(const OpCall& call) {
  using Op = RowGateBackward;
  return for_floating(call, call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t rows = call.tensor(Op::kInput).rows(), hidden = call.tensor(Op::kInput).dim(-1);
    T* const input_gradient = call.data<T>(Op::kInputGradient);
    const T *const output_gradient = call.data<T>(Op::kOutputGradient), *const input = call.data<T>(Op::kInput);
    return for_width<T>(is_packed<T>(hidden, {input_gradient, output_gradient, input}), [&](auto elements) {
      constexpr int N = decltype(elements)::value;
      MTL_RUN_KERNEL(call, (backward_kernel<T, N>), grid_of(rows, row_threads(ceiling(hidden, N))), input_gradient,
                     call.data<float>(Op::kLogitsGradient), output_gradient, input, call.data<float>(Op::kLogits),
                     hidden);
      return ok_status();
    });
  });
}

MTL_REGISTER_CUDA("row_gate_forward", forward);
MTL_REGISTER_CUDA("row_gate_backward", backward);

}  // namespace
}  // namespace mtl::cuda

// bias_swiglu_forward and bias_swiglu_backward: one block per row. Its threads loop over N neighbouring gates
// and the corresponding values.
#include "backends/cuda/kernels/dispatch.h"
#include "ops/bias_swiglu.h"

namespace mtl::cuda {
namespace {

template <typename T, int N>
__device__ __forceinline__ void load_biased(float (&to)[N], const T* row, const T* bias, int64_t column) {
  load(to, row + column);
  if (bias == nullptr) return;
  float values[N];
  load(values, bias + column);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] += values[i];
}

template <typename T, int N>
__global__ void forward_kernel(T* output, const T* input, const T* bias, int64_t width) {
  const T* const row = input + int64_t{blockIdx.x} * 2 * width;
  for (int64_t f = int64_t{threadIdx.x} * N; f < width; f += int64_t{blockDim.x} * N) {
    float gate[N], up[N];
    load_biased(gate, row, bias, f);
    load_biased(up, row, bias, width + f);
#pragma unroll
    for (int i = 0; i < N; ++i) up[i] *= gate[i] / (1.0f + exponential<T>(-gate[i]));
    store(output + int64_t{blockIdx.x} * width + f, up);
  }
}

template <typename T, int N>
__global__ void backward_kernel(T* input_gradient, const T* output_gradient, const T* input, const T* bias,
                                int64_t width) {
  const int64_t start = int64_t{blockIdx.x} * 2 * width;
  for (int64_t f = int64_t{threadIdx.x} * N; f < width; f += int64_t{blockDim.x} * N) {
    float gate[N], up[N], gradient[N];
    load_biased(gate, input + start, bias, f);
    load_biased(up, input + start, bias, width + f);
    load(gradient, output_gradient + int64_t{blockIdx.x} * width + f);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      // below -88, the sigmoid is less than float32's smallest normal number. It becomes 0 with a finite e,
      // so that its product with a large gate is not large. NaN stays NaN
      const bool is_far = gate[i] < -88.0f;
      const float e = exponential<T>(is_far ? 88.0f : -gate[i]);
      const float s = is_far ? 0.0f : 1.0f / (1.0f + e);
      const float of_gate = up[i] * (s + gate[i] * s * (e * s));  // 1 - s = e s
      up[i] = gradient[i] * (gate[i] * s);
      gate[i] = gradient[i] * of_gate;
    }
    store(input_gradient + start + f, gate);
    store(input_gradient + start + width + f, up);
  }
}

Status forward(const OpCall& call) {
  using Op = BiasSwigluForward;
  return for_floating(call, call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t rows = call.tensor(Op::kOutput).rows(), width = call.tensor(Op::kOutput).dim(-1);
    T* const output = call.data<T>(Op::kOutput);
    const T *const input = call.data<T>(Op::kInput), *const bias = call.data<T>(Op::kBias);
    return for_width<T>(is_packed<T>(width, {output, input, bias}), [&](auto elements) {
      constexpr int N = decltype(elements)::value;
      MTL_RUN_KERNEL(call, (forward_kernel<T, N>), grid_of(rows, row_threads(ceiling(width, N))), output, input, bias,
                     width);
      return ok_status();
    });
  });
}

Status backward(const OpCall& call) {
  using Op = BiasSwigluBackward;
  return for_floating(call, call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t rows = call.tensor(Op::kOutputGradient).rows(), width = call.tensor(Op::kOutputGradient).dim(-1);
    T* const input_gradient = call.data<T>(Op::kInputGradient);
    const T *const output_gradient = call.data<T>(Op::kOutputGradient), *const input = call.data<T>(Op::kInput),
                   *const bias = call.data<T>(Op::kBias);
    return for_width<T>(is_packed<T>(width, {input_gradient, output_gradient, input, bias}), [&](auto elements) {
      constexpr int N = decltype(elements)::value;
      MTL_RUN_KERNEL(call, (backward_kernel<T, N>), grid_of(rows, row_threads(ceiling(width, N))), input_gradient,
                     output_gradient, input, bias, width);
      return ok_status();
    });
  });
}

MTL_REGISTER_CUDA("bias_swiglu_forward", forward);
MTL_REGISTER_CUDA("bias_swiglu_backward", backward);

}  // namespace
}  // namespace mtl::cuda

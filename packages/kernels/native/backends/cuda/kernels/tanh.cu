// tanh and its gradient: one thread per N neighbouring elements of flat buffers. The last thread takes the
// remainder.
#include "backends/cuda/kernels/dispatch.h"
#include "ops/tanh.h"

namespace mtl::cuda {
namespace {

template <typename T, int N>
__global__ void forward_kernel(T* output, const T* input, int64_t size) {
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first + N <= size) {
    float values[N];
    load(values, input + first);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = tanhf(values[i]);
    store(output + first, values);
  } else {
    for (int64_t i = first; i < size; ++i) set(output + i, tanhf(to_float(input[i])));
  }
}

template <typename T, int N>
__global__ void backward_kernel(T* input_gradient, const T* output_gradient, const T* output, int64_t size) {
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first + N <= size) {
    float gradients[N], values[N];
    load(gradients, output_gradient + first);
    load(values, output + first);
#pragma unroll
    for (int i = 0; i < N; ++i) gradients[i] *= 1.0f - values[i] * values[i];
    store(input_gradient + first, gradients);
  } else {
    for (int64_t i = first; i < size; ++i) {
      const float value = to_float(output[i]);
      set(input_gradient + i, to_float(output_gradient[i]) * (1.0f - value * value));
    }
  }
}

Status forward(const OpCall& call) {
  using Op = TanhForward;
  return for_floating(call, call.tensor(Op::kOutput).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const output = call.data<T>(Op::kOutput);
    const T* const input = call.data<T>(Op::kInput);
    const int64_t size = call.tensor(Op::kOutput).size();
    return for_width<T>(is_aligned(output) && is_aligned(input), [&](auto width) {
      constexpr int N = decltype(width)::value;
      MTL_RUN_KERNEL(call, (forward_kernel<T, N>), grid_of(ceiling(size, int64_t{N} * kThreads), kThreads), output,
                     input, size);
      return ok_status();
    });
  });
}

Status backward(const OpCall& call) {
  using Op = TanhBackward;
  return for_floating(call, call.tensor(Op::kInputGradient).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const input_gradient = call.data<T>(Op::kInputGradient);
    const T *const output_gradient = call.data<T>(Op::kOutputGradient), *const output = call.data<T>(Op::kOutput);
    const int64_t size = call.tensor(Op::kInputGradient).size();
    const bool aligned = is_aligned(input_gradient) && is_aligned(output_gradient) && is_aligned(output);
    return for_width<T>(aligned, [&](auto width) {
      constexpr int N = decltype(width)::value;
      MTL_RUN_KERNEL(call, (backward_kernel<T, N>), grid_of(ceiling(size, int64_t{N} * kThreads), kThreads),
                     input_gradient, output_gradient, output, size);
      return ok_status();
    });
  });
}

MTL_REGISTER_CUDA("tanh_forward", forward);
MTL_REGISTER_CUDA("tanh_backward", backward);

}  // namespace
}  // namespace mtl::cuda

// bias_squared_relu_forward and bias_squared_relu_backward: one block per row. Its threads loop over N
// neighbouring columns.
#include "backends/cuda/kernels/dispatch.h"
#include "ops/bias_squared_relu.h"

namespace mtl::cuda {
namespace {

template <bool kBackward, typename T, int N>
__global__ void bias_squared_relu_kernel(T* output, const T* gradient, const T* input, const T* bias, int64_t columns) {
  const int64_t start = int64_t{blockIdx.x} * columns;
  for (int64_t column = int64_t{threadIdx.x} * N; column < columns; column += int64_t{blockDim.x} * N) {
    float z[N], result[N];
    load(z, input + start + column);
    if (bias != nullptr) {
      float b[N];
      load(b, bias + column);
#pragma unroll
      for (int i = 0; i < N; ++i) z[i] += b[i];
    }
    if (kBackward) load(result, gradient + start + column);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float positive = z[i] < 0.0f ? 0.0f : z[i];  // NaN stays NaN
      result[i] = kBackward ? result[i] * (positive + positive) : positive * positive;
    }
    store(output + start + column, result);
  }
}

struct Tensors {
  int gradient, input, bias;  // argument numbers; gradient -1: none
};

template <bool kBackward>
Status run(const OpCall& call, const Tensors& at) {
  using Op = BiasSquaredReluForward;
  return for_floating(call, call.tensor(at.input).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const output = call.data<T>(Op::kOutput);
    const T* const gradient = kBackward ? call.data<T>(at.gradient) : nullptr;
    const T *const input = call.data<T>(at.input), *const bias = call.data<T>(at.bias);
    const int64_t rows = call.tensor(at.input).rows(), columns = call.tensor(at.input).dim(-1);
    return for_width<T>(is_packed<T>(columns, {output, gradient, input, bias}), [&](auto width) {
      constexpr int N = decltype(width)::value;
      MTL_RUN_KERNEL(call, (bias_squared_relu_kernel<kBackward, T, N>), grid_of(rows, row_threads(ceiling(columns, N))),
                     output, gradient, input, bias, columns);
      return ok_status();
    });
  });
}

Status forward(const OpCall& call) {
  using Op = BiasSquaredReluForward;
  return run<false>(call, {-1, Op::kInput, Op::kBias});
}

Status backward(const OpCall& call) {
  using Op = BiasSquaredReluBackward;
  return run<true>(call, {Op::kOutputGradient, Op::kInput, Op::kBias});
}

MTL_REGISTER_CUDA("bias_squared_relu_forward", forward);
MTL_REGISTER_CUDA("bias_squared_relu_backward", backward);

}  // namespace
}  // namespace mtl::cuda

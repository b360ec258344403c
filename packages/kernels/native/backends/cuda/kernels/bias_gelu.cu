// bias_gelu_forward and bias_gelu_backward: one block per row, whose threads loop over N neighbouring
// columns.
#include "backends/cuda/kernels/dispatch.h"
#include "ops/bias_gelu.h"

namespace mtl::cuda {
namespace {

constexpr float kSqrt2OverPi = 0.7978845608028654f;
constexpr float kCubic = 0.044715f;
constexpr float kInverseSqrt2 = 0.7071067811865476f;
constexpr float kInverseSqrt2Pi = 0.3989422804014327f;

// 0.5 (1 + tanh u) = 1 / (1 + e^-2u): one exponential, and no cancellation in the tails.
template <typename T>
__device__ __forceinline__ float negative_exponential(float z) {
  return exponential<T>(z * (-2.0f * kSqrt2OverPi - 2.0f * kSqrt2OverPi * kCubic * z * z));
}

template <bool kErf, typename T>
__device__ __forceinline__ float gelu(float z) {
  if (kErf) return 0.5f * z * (1.0f + erff(z * kInverseSqrt2));
  return z / (1.0f + negative_exponential<T>(z));
}

template <bool kErf, typename T>
__device__ __forceinline__ float gelu_derivative(float z) {
  if (kErf) {
    return 0.5f * (1.0f + erff(z * kInverseSqrt2)) + z * kInverseSqrt2Pi * exponential<T>(-0.5f * z * z);
  }
  // Beyond 10 the derivative is 0 or 1 in float32; neither e nor z^3 may overflow there. NaN stays NaN.
  const float limited = z < -10.0f ? -10.0f : z > 10.0f ? 10.0f : z;
  const float e = negative_exponential<T>(limited);
  const float s = 1.0f / (1.0f + e);
  // s + z s (1 - s) 2u', with 1 - s = e s
  return s + s * (e * s) * (limited * (2.0f * kSqrt2OverPi + 6.0f * kSqrt2OverPi * kCubic * limited * limited));
}

template <bool kErf, bool kBackward, typename T, int N>
__global__ void bias_gelu_kernel(T* output, const T* gradient, const T* input, const T* bias, int64_t columns) {
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
      result[i] = kBackward ? result[i] * gelu_derivative<kErf, T>(z[i]) : gelu<kErf, T>(z[i]);
    }
    store(output + start + column, result);
  }
}

struct Tensors {
  int gradient, input, bias;  // argument numbers; gradient -1: none
};

template <bool kErf, bool kBackward>
Status run(const OpCall& call, const Tensors& at) {
  using Op = BiasGeluForward;
  return for_floating(call, call.tensor(at.input).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const output = call.data<T>(Op::kOutput);
    const T* const gradient = kBackward ? call.data<T>(at.gradient) : nullptr;
    const T *const input = call.data<T>(at.input), *const bias = call.data<T>(at.bias);
    const int64_t rows = call.tensor(at.input).rows(), columns = call.tensor(at.input).dim(-1);
    return for_width<T>(is_packed<T>(columns, {output, gradient, input, bias}), [&](auto width) {
      constexpr int N = decltype(width)::value;
      MTL_RUN_KERNEL(call, (bias_gelu_kernel<kErf, kBackward, T, N>), grid_of(rows, row_threads(ceiling(columns, N))),
                     output, gradient, input, bias, columns);
      return ok_status();
    });
  });
}

Status forward(const OpCall& call) {
  using Op = BiasGeluForward;
  const Tensors at = {-1, Op::kInput, Op::kBias};
  return call.flag(Op::kErf) ? run<true, false>(call, at) : run<false, false>(call, at);
}

Status backward(const OpCall& call) {
  using Op = BiasGeluBackward;
  const Tensors at = {Op::kOutputGradient, Op::kInput, Op::kBias};
  return call.flag(Op::kErf) ? run<true, true>(call, at) : run<false, true>(call, at);
}

MTL_REGISTER_CUDA("bias_gelu_forward", forward);
MTL_REGISTER_CUDA("bias_gelu_backward", backward);

}  // namespace
}  // namespace mtl::cuda

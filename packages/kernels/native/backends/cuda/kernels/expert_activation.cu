// expert_activation_forward and expert_activation_backward: one block per row. Its threads loop over N
// neighbouring columns and, for a gated activation, the corresponding values.
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/gelu.cuh"
#include "backends/cuda/kernels/group_offsets.cuh"
#include "ops/expert_activation.h"

namespace mtl::cuda {
namespace {

// The value and the derivative of an activation function.
struct Value {
  float value, derivative;
};

// Returns x sigmoid(factor x) and its derivative. If the sigmoid is less than float32's smallest normal
// number, it becomes 0, so that its product with a large gate is not large. NaN stays NaN.
template <typename T>
__device__ __forceinline__ Value sigmoid_weighted(float x, float factor) {
  const float scaled = factor * x;
  const bool is_far = scaled < -88.0f;
  const float e = exponential<T>(is_far ? 88.0f : -scaled), s = is_far ? 0.0f : 1.0f / (1.0f + e);
  return {x * s, s + scaled * s * (e * s)};  // 1 - s = e s
}

template <typename T>
__device__ __forceinline__ Value activate(ExpertActivation kind, float x) {
  switch (kind) {
    case ExpertActivation::kSwiglu:
      return sigmoid_weighted<T>(x, 1.0f);
    case ExpertActivation::kGeluTanh:
      return {gelu<false, T>(x), gelu_derivative<false, T>(x)};
    case ExpertActivation::kGeluErf:
      return {gelu<true, T>(x), gelu_derivative<true, T>(x)};
    case ExpertActivation::kSquaredRelu: {
      const float positive = x < 0.0f ? 0.0f : x;  // NaN stays NaN
      return {positive * positive, positive + positive};
    }
    default:
      return sigmoid_weighted<T>(x, 1.702f);
  }
}

// An element of the output before the multiplication by its row's probability, and its derivatives with
// respect to both operands.
struct Element {
  float value, by_gate, by_value;
};

struct Kind {
  ExpertActivation activation;
  bool is_gated;
  float clamp, linear_offset;  // clamp 0: no limit
};

template <typename T>
__device__ __forceinline__ Element element_of(const Kind& kind, float first, float second) {
  if (!kind.is_gated) {
    const Value x = activate<T>(kind.activation, first);
    return {x.value, x.derivative, 0.0f};
  }
  const float limit = kind.clamp > 0.0f ? kind.clamp : __uint_as_float(0x7f800000u);
  const Value x = activate<T>(kind.activation, first > limit ? limit : first);
  const float shifted = (second > limit ? limit : second < -limit ? -limit : second) + kind.linear_offset;
  return {x.value * shifted, first > limit ? 0.0f : x.derivative * shifted,
          second > limit || second < -limit ? 0.0f : x.value};
}

template <typename T>
struct Rows {
  const T *input, *bias;        // bias: null if absent
  const float* probabilities;   // null: all 1
  int64_t width, input_width;
  GroupOffsets groups;
  Kind kind;
};

// Loads columns of the input with their biases; if the activation is gated, loads the values, too.
template <typename T, int N>
__device__ __forceinline__ void load_operands(float (&first)[N], float (&second)[N], const Rows<T>& r, int64_t row, int64_t group,
                                              int64_t column) {
  const T* const from = r.input + row * r.input_width + column;
  load(first, from);
  if (r.kind.is_gated) load(second, from + r.width);
  if (r.bias == nullptr) return;
  const T* const bias = r.bias + group * r.input_width + column;
  float values[N];
  load(values, bias);
#pragma unroll
  for (int i = 0; i < N; ++i) first[i] += values[i];
  if (!r.kind.is_gated) return;
  load(values, bias + r.width);
#pragma unroll
  for (int i = 0; i < N; ++i) second[i] += values[i];
}

template <typename T, int N>
__global__ void forward_kernel(T* output, Rows<T> r) {
  r.groups.check();
  const int64_t row = blockIdx.x, group = r.groups.group_of(row);
  const float probability = r.probabilities == nullptr ? 1.0f : r.probabilities[row];
  for (int64_t column = int64_t{threadIdx.x} * N; column < r.width; column += int64_t{blockDim.x} * N) {
    float first[N] = {}, second[N] = {};
    if (group < r.groups.groups) {
      load_operands(first, second, r, row, group, column);
#pragma unroll
      for (int i = 0; i < N; ++i) first[i] = element_of<T>(r.kind, first[i], second[i]).value * probability;
    }
    store(output + row * r.width + column, first);
  }
}

template <typename T, int N>
__global__ void backward_kernel(T* input_gradient, float* probabilities_gradient, const T* output_gradient, Rows<T> r) {
  MTL_SHARED(float, shared, [kMaxWarps]);
  r.groups.check();
  const int64_t row = blockIdx.x, group = r.groups.group_of(row);
  const float probability = r.probabilities == nullptr ? 1.0f : r.probabilities[row];
  T* const to = input_gradient + row * r.input_width;
  float products = 0.0f;
  for (int64_t column = int64_t{threadIdx.x} * N; column < r.width; column += int64_t{blockDim.x} * N) {
    float first[N] = {}, second[N] = {};
    if (group < r.groups.groups) {
      float gradient[N];
      load(gradient, output_gradient + row * r.width + column);
      load_operands(first, second, r, row, group, column);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const Element element = element_of<T>(r.kind, first[i], second[i]);
        products += gradient[i] * element.value;
        first[i] = gradient[i] * probability * element.by_gate;
        second[i] = gradient[i] * probability * element.by_value;
      }
    }
    store(to + column, first);
    if (r.kind.is_gated) store(to + r.width + column, second);
  }
  if (probabilities_gradient == nullptr) return;
  products = block_reduce<Sum>(products, shared);
  if (threadIdx.x == 0) probabilities_gradient[row] = products;
}

template <typename Op, typename T>
Rows<T> rows_of(const OpCall& call, int64_t rows, int64_t width) {
  const auto activation = static_cast<ExpertActivation>(call.integer(Op::kActivation));
  return {call.data<T>(Op::kInput),
          call.data<T>(Op::kBias),
          call.data<float>(Op::kProbabilities),
          width,
          call.tensor(Op::kInput).dim(-1),
          group_offsets(call, Op::kOffsets, rows),
          {activation, is_gated(activation), static_cast<float>(call.attribute(Op::kClamp)),
           static_cast<float>(call.attribute(Op::kLinearOffset))}};
}

Status forward(const OpCall& call) {
  using Op = ExpertActivationForward;
  return for_floating(call, call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t rows = call.tensor(Op::kOutput).rows(), width = call.tensor(Op::kOutput).dim(-1);
    const Rows<T> r = rows_of<Op, T>(call, rows, width);
    T* const output = call.data<T>(Op::kOutput);
    return for_width<T>(is_packed<T>(width, {output, r.input, r.bias}), [&](auto elements) {
      constexpr int N = decltype(elements)::value;
      MTL_RUN_KERNEL(call, (forward_kernel<T, N>), grid_of(rows, row_threads(ceiling(width, N))), output, r);
      return ok_status();
    });
  });
}

Status backward(const OpCall& call) {
  using Op = ExpertActivationBackward;
  return for_floating(call, call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t rows = call.tensor(Op::kOutputGradient).rows(), width = call.tensor(Op::kOutputGradient).dim(-1);
    const Rows<T> r = rows_of<Op, T>(call, rows, width);
    T* const input_gradient = call.data<T>(Op::kInputGradient);
    const T* const output_gradient = call.data<T>(Op::kOutputGradient);
    return for_width<T>(is_packed<T>(width, {input_gradient, output_gradient, r.input, r.bias}), [&](auto elements) {
      constexpr int N = decltype(elements)::value;
      MTL_RUN_KERNEL(call, (backward_kernel<T, N>), grid_of(rows, row_threads(ceiling(width, N))), input_gradient,
                     call.data<float>(Op::kProbabilitiesGradient), output_gradient, r);
      return ok_status();
    });
  });
}

MTL_REGISTER_CUDA("expert_activation_forward", forward);
MTL_REGISTER_CUDA("expert_activation_backward", backward);

}  // namespace
}  // namespace mtl::cuda

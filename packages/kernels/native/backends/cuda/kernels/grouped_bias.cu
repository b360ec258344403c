// grouped_sum_rows, grouped_bias_forward and grouped_bias_backward. In grouped_sum_rows, a thread sums N
// columns of a group, row by row. The other two operations have one block per row.
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/group_offsets.cuh"
#include "ops/grouped_bias.h"

namespace mtl::cuda {
namespace {

constexpr int kRowsTogether = 64;  // rows that are summed before they are added to the total: fewer roundings

// Block (x, y) sums columns from x * blockDim.x * N on, of group y and every gridDim.y-th group after it.
template <typename T, int N>
__global__ void sum_rows_kernel(float* output, const T* input, const float* weights, int64_t columns, GroupOffsets groups,
                                bool accumulate) {
  groups.check();
  const int64_t column = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (column >= columns) return;
  for (int64_t group = blockIdx.y; group < groups.groups; group += gridDim.y) {
    const int64_t first = groups.begin(group), last = groups.end(group);
    float total[N] = {};
    for (int64_t start = first; start < last; start += kRowsTogether) {
      float partial[N] = {};
      for (int64_t row = start; row < last && row < start + kRowsTogether; ++row) {
        float values[N];
        load(values, input + row * columns + column);
        const float weight = weights == nullptr ? 1.0f : weights[row];
#pragma unroll
        for (int i = 0; i < N; ++i) partial[i] += values[i] * weight;
      }
#pragma unroll
      for (int i = 0; i < N; ++i) total[i] += partial[i];
    }
    float* const to = output + group * columns + column;
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = accumulate ? to[i] + total[i] : total[i];
  }
}

template <typename T, int N>
__global__ void forward_kernel(T* output, const T* input, const T* bias, const float* probabilities, int64_t columns,
                               GroupOffsets groups) {
  groups.check();
  const int64_t row = blockIdx.x, group = groups.group_of(row);
  const float probability = probabilities == nullptr ? 1.0f : probabilities[row];
  for (int64_t column = int64_t{threadIdx.x} * N; column < columns; column += int64_t{blockDim.x} * N) {
    float values[N] = {};
    if (group < groups.groups) {
      float added[N];
      load(values, input + row * columns + column);
      load(added, bias + group * columns + column);
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] += probability * added[i];
    }
    store(output + row * columns + column, values);
  }
}

template <typename T, int N>
__global__ void backward_kernel(float* gradient, const T* output_gradient, const T* bias, int64_t columns, GroupOffsets groups) {
  MTL_SHARED(float, shared, [kMaxWarps]);
  groups.check();
  const int64_t row = blockIdx.x, group = groups.group_of(row);
  float products = 0.0f;
  for (int64_t column = int64_t{threadIdx.x} * N; group < groups.groups && column < columns;
       column += int64_t{blockDim.x} * N) {
    float values[N], factors[N];
    load(values, output_gradient + row * columns + column);
    load(factors, bias + group * columns + column);
#pragma unroll
    for (int i = 0; i < N; ++i) products += values[i] * factors[i];
  }
  products = block_reduce<Sum>(products, shared);
  if (threadIdx.x == 0) gradient[row] = products;
}

Status grouped_sum_rows(const OpCall& call) {
  using Op = GroupedSumRows;
  return for_floating(call, call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t columns = call.tensor(Op::kInput).dim(-1), rows = call.tensor(Op::kInput).rows();
    const GroupOffsets groups = group_offsets(call, Op::kOffsets, rows);
    const T* const input = call.data<T>(Op::kInput);
    return for_width<T>(is_packed<T>(columns, {input}), [&](auto width) {
      constexpr int N = decltype(width)::value;
      const int threads = row_threads(ceiling(columns, N), 64);
      const int64_t blocks = ceiling(columns, int64_t{threads} * N);
      MTL_RUN_KERNEL(call, (sum_rows_kernel<T, N>), grid_of(blocks, threads, std::min<int64_t>(groups.groups, 65535)),
                     call.data<float>(Op::kOutput), input, call.data<float>(Op::kWeights), columns, groups,
                     call.flag(Op::kAccumulate));
      return ok_status();
    });
  });
}

Status forward(const OpCall& call) {
  using Op = GroupedBiasForward;
  return for_floating(call, call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t columns = call.tensor(Op::kInput).dim(-1), rows = call.tensor(Op::kInput).rows();
    T* const output = call.data<T>(Op::kOutput);
    const T *const input = call.data<T>(Op::kInput), *const bias = call.data<T>(Op::kBias);
    return for_width<T>(is_packed<T>(columns, {output, input, bias}), [&](auto width) {
      constexpr int N = decltype(width)::value;
      MTL_RUN_KERNEL(call, (forward_kernel<T, N>), grid_of(rows, row_threads(ceiling(columns, N))), output, input, bias,
                     call.data<float>(Op::kProbabilities), columns, group_offsets(call, Op::kOffsets, rows));
      return ok_status();
    });
  });
}

Status backward(const OpCall& call) {
  using Op = GroupedBiasBackward;
  return for_floating(call, call.tensor(Op::kOutputGradient).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t columns = call.tensor(Op::kBias).dim(1), rows = call.tensor(Op::kOutputGradient).rows();
    const T *const output_gradient = call.data<T>(Op::kOutputGradient), *const bias = call.data<T>(Op::kBias);
    return for_width<T>(is_packed<T>(columns, {output_gradient, bias}), [&](auto width) {
      constexpr int N = decltype(width)::value;
      MTL_RUN_KERNEL(call, (backward_kernel<T, N>), grid_of(rows, row_threads(ceiling(columns, N))),
                     call.data<float>(Op::kProbabilitiesGradient), output_gradient, bias, columns,
                     group_offsets(call, Op::kOffsets, rows));
      return ok_status();
    });
  });
}

MTL_REGISTER_CUDA("grouped_sum_rows", grouped_sum_rows);
MTL_REGISTER_CUDA("grouped_bias_forward", forward);
MTL_REGISTER_CUDA("grouped_bias_backward", backward);

}  // namespace
}  // namespace mtl::cuda

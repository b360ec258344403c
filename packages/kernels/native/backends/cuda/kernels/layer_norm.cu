// layer_norm_forward and layer_norm_backward.
//
// Rows that fill whole 16-byte accesses, at most one access per thread of a block, are read once and stay in
// registers. The backward pass has few blocks: each takes every gridDim.x-th row and also keeps the sums for
// its weight gradients in registers, so that one pass over memory gives all three gradients. Other rows are
// processed element by element and read more than once.
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/column_sums.h"
#include "backends/cuda/kernels/dispatch.h"
#include "backends/cuda/scratch/layer_norm.h"
#include "ops/layer_norm.h"

namespace mtl::cuda {
namespace {

template <typename T>
struct Forward {
  T* output;
  float *mean, *rstd;
  const T *input, *weight, *bias;
  int64_t columns;
  float epsilon;
};

template <typename T>
__global__ void __launch_bounds__(kMaxRowThreads) forward_kernel(Forward<T> f) {
  constexpr int N = kPack<T>;
  MTL_SHARED(float, shared, [kMaxWarps]);
  const int64_t start = int64_t{blockIdx.x} * f.columns, column = int64_t{threadIdx.x} * N;
  const bool inside = column < f.columns;
  float x[N] = {};
  if (inside) load(x, f.input + start + column);
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < N; ++i) total += x[i];
  const float mean = block_reduce<Sum>(total, shared) / static_cast<float>(f.columns);
  // summing squared differences avoids cancellation
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < N; ++i) squares += inside ? (x[i] - mean) * (x[i] - mean) : 0.0f;
  const float variance = block_reduce<Sum>(squares, shared) / static_cast<float>(f.columns);
  const float rstd = 1.0f / sqrtf(variance + f.epsilon);
  if (threadIdx.x == 0) {
    f.mean[blockIdx.x] = mean;
    f.rstd[blockIdx.x] = rstd;
  }
  if (!inside) return;
  float weight[N], bias[N];
  load(weight, f.weight + column);
  load(bias, f.bias + column);
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
  store(f.output + start + column, x);
}

template <typename T>
__global__ void any_forward_kernel(Forward<T> f) {
  MTL_SHARED(float, shared, [kMaxWarps]);
  const T* const row = f.input + int64_t{blockIdx.x} * f.columns;
  float total = 0.0f, squares = 0.0f;
  for (int64_t h = threadIdx.x; h < f.columns; h += blockDim.x) total += to_float(row[h]);
  const float mean = block_reduce<Sum>(total, shared) / static_cast<float>(f.columns);
  for (int64_t h = threadIdx.x; h < f.columns; h += blockDim.x) {
    squares += (to_float(row[h]) - mean) * (to_float(row[h]) - mean);
  }
  const float variance = block_reduce<Sum>(squares, shared) / static_cast<float>(f.columns);
  const float rstd = 1.0f / sqrtf(variance + f.epsilon);
  if (threadIdx.x == 0) {
    f.mean[blockIdx.x] = mean;
    f.rstd[blockIdx.x] = rstd;
  }
  for (int64_t h = threadIdx.x; h < f.columns; h += blockDim.x) {
    set(f.output + int64_t{blockIdx.x} * f.columns + h,
        (to_float(row[h]) - mean) * rstd * to_float(f.weight[h]) + to_float(f.bias[h]));
  }
}

template <typename T>
struct Backward {
  T* input_gradient;  // null: not requested
  const T *output_gradient, *input, *weight, *addend;
  const float *mean, *rstd;
  int64_t rows, columns;
};

// Computes dx = rstd * (g - mean(g) - x_hat * mean(g * x_hat)) + addend, with g = dy * weight. A line of
// `partial` receives the block's sums of dy * x_hat, followed by the sums of dy.
template <typename T, bool kInput, bool kWeight>
__global__ void __launch_bounds__(kMaxRowThreads) backward_kernel(Backward<T> b, float* partial) {
  constexpr int N = kPack<T>;
  MTL_SHARED(float, shared, [2][kMaxWarps]);
  const int64_t column = int64_t{threadIdx.x} * N;
  const bool inside = column < b.columns;
  float weight[N] = {}, weight_sums[N] = {}, bias_sums[N] = {};
  if (kInput && inside) load(weight, b.weight + column);
  for (int64_t row = blockIdx.x; row < b.rows; row += gridDim.x) {
    const int64_t at = row * b.columns + column;
    const float mean = b.mean[row], rstd = b.rstd[row];
    float dy[N] = {}, normalized[N] = {};
    if (inside) {
      load(dy, b.output_gradient + at);
      load(normalized, b.input + at);
    }
    float gradients = 0.0f, products = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      normalized[i] = (normalized[i] - mean) * rstd;
      gradients += dy[i] * weight[i];
      products += dy[i] * weight[i] * normalized[i];
      if (kWeight) {
        weight_sums[i] += dy[i] * normalized[i];
        bias_sums[i] += dy[i];
      }
    }
    if (!kInput) continue;
    const float mean_gradient = block_reduce<Sum>(gradients, shared[0]) / static_cast<float>(b.columns);
    const float mean_product = block_reduce<Sum>(products, shared[1]) / static_cast<float>(b.columns);
    if (!inside) continue;
    float dx[N] = {};
    if (b.addend != nullptr) load(dx, b.addend + at);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      dx[i] += (dy[i] * weight[i] - mean_gradient - normalized[i] * mean_product) * rstd;
    }
    store(b.input_gradient + at, dx);
  }
  if (!kWeight || !inside) return;
  float* const line = partial + int64_t{blockIdx.x} * 2 * b.columns + column;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    line[i] = weight_sums[i];
    line[b.columns + i] = bias_sums[i];
  }
}

template <typename T>
__global__ void any_input_gradient_kernel(Backward<T> b) {
  MTL_SHARED(float, shared, [2][kMaxWarps]);
  const int64_t start = int64_t{blockIdx.x} * b.columns;
  const float mean = b.mean[blockIdx.x], rstd = b.rstd[blockIdx.x];
  float gradients = 0.0f, products = 0.0f;
  for (int64_t h = threadIdx.x; h < b.columns; h += blockDim.x) {
    const float gradient = to_float(b.output_gradient[start + h]) * to_float(b.weight[h]);
    gradients += gradient;
    products += gradient * ((to_float(b.input[start + h]) - mean) * rstd);
  }
  const float mean_gradient = block_reduce<Sum>(gradients, shared[0]) / static_cast<float>(b.columns);
  const float mean_product = block_reduce<Sum>(products, shared[1]) / static_cast<float>(b.columns);
  for (int64_t h = threadIdx.x; h < b.columns; h += blockDim.x) {
    const float gradient = to_float(b.output_gradient[start + h]) * to_float(b.weight[h]);
    const float normalized = (to_float(b.input[start + h]) - mean) * rstd;
    const float result = (gradient - mean_gradient - normalized * mean_product) * rstd;
    set(b.input_gradient + start + h, result + (b.addend == nullptr ? 0.0f : to_float(b.addend[start + h])));
  }
}

// Block (x, y) sums columns from x * blockDim.x on over rows y, y + gridDim.y, ...
template <typename T>
__global__ void any_weight_gradient_kernel(Backward<T> b, float* partial) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= b.columns) return;
  float weight_sum = 0.0f, bias_sum = 0.0f;
  for (int64_t row = blockIdx.y; row < b.rows; row += gridDim.y) {
    const float gradient = to_float(b.output_gradient[row * b.columns + column]);
    weight_sum += gradient * ((to_float(b.input[row * b.columns + column]) - b.mean[row]) * b.rstd[row]);
    bias_sum += gradient;
  }
  float* const line = partial + int64_t{blockIdx.y} * 2 * b.columns + column;
  line[0] = weight_sum;
  line[b.columns] = bias_sum;
}

template <typename T>
Status forward_of(const OpCall& call) {
  using Op = LayerNormForward;
  const TensorView& input = call.tensor(Op::kInput);
  const Forward<T> f = {call.data<T>(Op::kOutput), call.data<float>(Op::kMean), call.data<float>(Op::kRstd),
                        call.data<T>(Op::kInput), call.data<T>(Op::kWeight), call.data<T>(Op::kBias),
                        input.dim(-1), static_cast<float>(call.attribute(Op::kEpsilon))};
  if (is_packed<T>(f.columns, {f.output, f.input, f.weight, f.bias}) && fits_registers(f.columns, kPack<T>)) {
    const int threads = row_threads(ceiling(f.columns, kPack<T>), kMaxRowThreads);
    MTL_RUN_KERNEL(call, (forward_kernel<T>), grid_of(input.rows(), threads), f);
  } else {
    MTL_RUN_KERNEL(call, (any_forward_kernel<T>), grid_of(input.rows(), row_threads(f.columns)), f);
  }
  return ok_status();
}

// Computes partial sums with `num_lines` blocks, then adds them. `run` launches the first pass.
template <typename Run>
Status with_weight_gradients(const OpCall& call, const LayerNormRows& by, const Run& run) {
  using Op = LayerNormBackward;
  KernelScratch scratch;
  MTL_RETURN_IF_ERROR(scratch.take(call));
  float* const partial = scratch.as<float>(0);
  MTL_RETURN_IF_ERROR(run(partial));
  return add_lines(call,
                   {call.data<float>(Op::kWeightGradient), call.data<float>(Op::kBiasGradient),
                    call.tensor(Op::kInput).dim(-1), true},
                   partial, by.num_lines);
}

template <typename T>
Status packed_backward(const OpCall& call, const LayerNormRows& by, const Backward<T>& b) {
  using Op = LayerNormBackward;
  if (!call.has(Op::kWeightGradient)) {
    MTL_RUN_KERNEL(call, (backward_kernel<T, true, false>), grid_of(b.rows, by.threads), b, nullptr);
    return ok_status();
  }
  return with_weight_gradients(call, by, [&](float* partial) {
    if (b.input_gradient == nullptr) {
      MTL_RUN_KERNEL(call, (backward_kernel<T, false, true>), grid_of(by.num_lines, by.threads), b, partial);
    } else {
      MTL_RUN_KERNEL(call, (backward_kernel<T, true, true>), grid_of(by.num_lines, by.threads), b, partial);
    }
    return ok_status();
  });
}

template <typename T>
Status any_backward(const OpCall& call, const LayerNormRows& by, const Backward<T>& b) {
  using Op = LayerNormBackward;
  if (call.has(Op::kWeightGradient)) {
    // the sums come before the input gradient, which may overwrite the output gradient's memory
    MTL_RETURN_IF_ERROR(with_weight_gradients(call, by, [&](float* partial) {
      MTL_RUN_KERNEL(call, (any_weight_gradient_kernel<T>), grid_of(ceiling(b.columns, 128), 128, by.num_lines), b,
                     partial);
      return ok_status();
    }));
  }
  if (b.input_gradient != nullptr) {
    MTL_RUN_KERNEL(call, (any_input_gradient_kernel<T>), grid_of(b.rows, row_threads(b.columns)), b);
  }
  return ok_status();
}

template <typename T>
Status backward_of(const OpCall& call) {
  using Op = LayerNormBackward;
  const TensorView& input = call.tensor(Op::kInput);
  const Backward<T> b = {call.data<T>(Op::kInputGradient), call.data<T>(Op::kOutputGradient),
                         call.data<T>(Op::kInput), call.data<T>(Op::kWeight), call.data<T>(Op::kAddend),
                         call.data<float>(Op::kMean), call.data<float>(Op::kRstd), input.rows(), input.dim(-1)};
  const LayerNormRows by = layer_norm_backward_rows(call, gpu_properties());
  return by.is_packed ? packed_backward(call, by, b) : any_backward(call, by, b);
}

Status forward(const OpCall& call) {
  using Op = LayerNormForward;
  return for_floating(call, call.tensor(Op::kInput).dtype,
                      [&](auto* type) { return forward_of<std::remove_pointer_t<decltype(type)>>(call); });
}

Status backward(const OpCall& call) {
  using Op = LayerNormBackward;
  return for_floating(call, call.tensor(Op::kInput).dtype,
                      [&](auto* type) { return backward_of<std::remove_pointer_t<decltype(type)>>(call); });
}

MTL_REGISTER_CUDA("layer_norm_forward", forward);
MTL_REGISTER_CUDA("layer_norm_backward", backward);

}  // namespace
}  // namespace mtl::cuda

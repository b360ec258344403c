// cross_entropy_statistics, cross_entropy_backward and cross_entropy_rescale: a block for each row of logits, which is
// read once: a thread whose maximum grows rescales the sum it has so far (Milakov and Gimelshein 2018).
#include "cuda/kernels/block_reduce.h"
#include "cuda/kernels/dispatch.h"

namespace mtl::cuda {
namespace {

constexpr int kRowThreads = 512;

// `sum` of exponentials measured from `maximum`; no terms yet: -infinity and 0.
struct Running {
  float maximum, sum;
};

// The factor for a sum that moves from one maximum to a greater one; -infinity has no terms to move.
__device__ __forceinline__ float moved(float from, float to) { return from == -INFINITY ? 0.0f : expf(from - to); }

template <typename T, int N>
__device__ __forceinline__ void add_terms(Running* running, const float (&logits)[N]) {
  float greatest = logits[0];
#pragma unroll
  for (int i = 1; i < N; ++i) greatest = fmaxf(greatest, logits[i]);
  if (greatest > running->maximum) {
    running->sum *= moved(running->maximum, greatest);
    running->maximum = greatest;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    running->sum += logits[i] == -INFINITY ? 0.0f : exponential<T>(logits[i] - running->maximum);
  }
}

struct Statistics {
  float *maximum, *sum, *label_logit;
  const int32_t* labels;
  int64_t width, first_column, num_columns;
};

template <typename T, int N>
__global__ void statistics_kernel(Statistics s, const T* logits) {
  MTL_SHARED(float, maxima, [kMaxWarps]);
  MTL_SHARED(float, sums, [kMaxWarps]);
  const int64_t row = blockIdx.x;
  const T* const from = logits + row * s.width;
  Running running = {-INFINITY, 0.0f};
  int64_t column = int64_t{threadIdx.x} * N;
  for (; column + N <= s.num_columns; column += int64_t{blockDim.x} * N) {
    float values[N];
    load(values, from + column);
    add_terms<T>(&running, values);
  }
  for (; column < s.num_columns; ++column) {  // the thread that has the last, partial access
    const float value[1] = {to_float(from[column])};
    add_terms<T>(&running, value);
  }
  const float maximum = block_reduce<Maximum>(running.maximum, maxima);
  const float sum = block_reduce<Sum>(running.sum * moved(running.maximum, maximum), sums);
  if (threadIdx.x != 0) return;
  const int64_t label = s.labels[row] - s.first_column;
  s.maximum[row] = maximum;
  s.sum[row] = sum;
  s.label_logit[row] = label >= 0 && label < s.num_columns ? to_float(from[label]) : 0.0f;
}

struct Losses {
  float* loss;
  const int32_t* labels;
  const float *maximum, *sum, *label_logit, *weights;
  int64_t width, first_column, num_columns;
};

// gradient = weight * (exp(logit - maximum) / sum - onehot); all of it zero where the weight is, whatever the logits.
// `gradients` may be `logits`, or null when only the losses are asked for.
template <typename T, int N>
__global__ void backward_kernel(T* gradients, Losses l, const T* logits) {
  const int64_t row = blockIdx.x;
  const float weight = l.weights[row], maximum = l.maximum[row], sum = l.sum[row];
  if (threadIdx.x == 0) l.loss[row] = weight == 0.0f ? 0.0f : logf(sum) + maximum - l.label_logit[row];
  if (gradients == nullptr) return;
  const int64_t label = l.labels[row] - l.first_column;
  const float scale = weight / sum;
  for (int64_t column = int64_t{threadIdx.x} * N; column < l.width; column += int64_t{blockDim.x} * N) {
    float values[N];
    load(values, logits + row * l.width + column);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const bool is_real = column + i < l.num_columns && weight != 0.0f;
      const float expected = column + i == label ? weight : 0.0f;
      values[i] = is_real ? exponential<T>(values[i] - maximum) * scale - expected : 0.0f;
    }
    store(gradients + row * l.width + column, values);
  }
}

__global__ void rescale_kernel(float* output, const float* sums, const float* maxima, const float* group_maxima,
                               int64_t size) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row < size) output[row] = sums[row] * expf(maxima[row] - group_maxima[row]);
}

template <typename T>
Status statistics_of(const OpCall& call) {
  const TensorView& logits = call.tensor(3);
  const Statistics s = {call.data<float>(0), call.data<float>(1), call.data<float>(2), call.data<int32_t>(4),
                        logits.dim(1),       call.integer(0),     call.integer(1)};
  const T* const from = call.data<T>(3);
  return for_width<T>(is_packed<T>(s.width, {from}), [&](auto width) {
    constexpr int N = decltype(width)::value;
    MTL_RUN_KERNEL(call, (statistics_kernel<T, N>),
                   grid_of(logits.dim(0), row_threads(ceiling(s.num_columns, N), kRowThreads)), s, from);
    return ok_status();
  });
}

template <typename T>
Status backward_of(const OpCall& call) {
  const TensorView& logits = call.tensor(2);
  const Losses l = {call.data<float>(1), call.data<int32_t>(3), call.data<float>(4), call.data<float>(5),
                    call.data<float>(6), call.data<float>(7),   logits.dim(1),       call.integer(0),
                    call.integer(1)};
  T* const gradients = call.data<T>(0);
  const T* const from = call.data<T>(2);
  return for_width<T>(is_packed<T>(l.width, {gradients, from}), [&](auto width) {
    constexpr int N = decltype(width)::value;
    MTL_RUN_KERNEL(call, (backward_kernel<T, N>),
                   grid_of(logits.dim(0), row_threads(ceiling(l.width, N), kRowThreads)), gradients, l, from);
    return ok_status();
  });
}

Status statistics(const OpCall& call) {
  return for_floating(call, call.tensor(3).dtype,
                      [&](auto* type) { return statistics_of<std::remove_pointer_t<decltype(type)>>(call); });
}

Status backward(const OpCall& call) {
  return for_floating(call, call.tensor(2).dtype,
                      [&](auto* type) { return backward_of<std::remove_pointer_t<decltype(type)>>(call); });
}

Status rescale(const OpCall& call) {
  if (call.tensor(0).dtype != DType::kFloat32) {
    return error_status("MTL_DTYPE", "cross_entropy_rescale: float64 is computed on the reference device only");
  }
  const int64_t size = call.tensor(0).size();
  MTL_RUN_KERNEL(call, rescale_kernel, grid_of(ceiling(size, kThreads), kThreads), call.data<float>(0),
                 call.data<float>(1), call.data<float>(2), call.data<float>(3), size);
  return ok_status();
}

MTL_REGISTER_CUDA("cross_entropy_statistics", statistics);
MTL_REGISTER_CUDA("cross_entropy_backward", backward);
MTL_REGISTER_CUDA("cross_entropy_rescale", rescale);

}  // namespace
}  // namespace mtl::cuda

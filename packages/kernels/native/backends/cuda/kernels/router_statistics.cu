// router_statistics_forward and router_statistics_backward. A block has one warp. In forward, a warp adds the
// rows of a part of a sequence, one after the other, in double. Then the parts of each sequence are added in
// their order.
#include "backends/cuda/kernels/router_rows.cuh"
#include "backends/cuda/scratch/router_statistics.h"
#include "ops/router_statistics.h"

namespace mtl::cuda {
namespace {

// Computes the scores of a row, which sum to 1, and returns ln(sum of e^logit).
__device__ __forceinline__ float normalize(float* scores, const float* logits, int experts, ScoreFunction function) {
  const int lane = static_cast<int>(threadIdx.x);
  const Softmax softmax = softmax_of(logits, experts);
  if (function == ScoreFunction::kSoftmax) {
    for (int e = lane; e < experts; e += kRowThreads) scores[e] = softmax.of(logits[e]);
  } else {
    for (int e = lane; e < experts; e += kRowThreads) scores[e] = score(function, logits[e]);
    __syncthreads();
    const float divisor = sum_of(scores, experts) + kSmallestSum;
    __syncthreads();
    for (int e = lane; e < experts; e += kRowThreads) scores[e] /= divisor;
  }
  __syncthreads();
  return softmax.maximum + logf(softmax.sum);
}

__device__ __forceinline__ void load_row(float* to, const float* logits, int experts) {
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += kRowThreads) to[e] = logits[e];
  __syncthreads();
}

// Returns the entropy of a lane's experts, in nats.
__device__ __forceinline__ float entropy_of(const float* scores, int experts) {
  float sum = 0.0f;
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += kRowThreads) {
    sum -= scores[e] == 0.0f ? 0.0f : scores[e] * logf(scores[e]);
  }
  return sum;
}

struct Forward {
  double* partial;
  const float *logits, *weights;
  int64_t rows, sequences;
  int experts, top_k, parts;
  ScoreFunction function;
};

// Block b sums part b % parts of sequence b / parts.
__global__ void __launch_bounds__(kRowThreads) sum_rows_kernel(Forward f) {
  MTL_DYNAMIC_SHARED(bytes);
  double* const sums = reinterpret_cast<double*>(bytes);  // sums of scores, then selection counts of experts
  float *const logits = reinterpret_cast<float*>(sums + 2 * f.experts), *const scores = logits + f.experts;
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t sequence = blockIdx.x / static_cast<unsigned>(f.parts), part = blockIdx.x % static_cast<unsigned>(f.parts);
  const int64_t length = (f.rows - sequence + f.sequences - 1) / f.sequences;  // below 1: the sequence has no rows
  for (int e = lane; e < 2 * f.experts; e += kRowThreads) sums[e] = 0.0;
  double squares = 0.0, entropies = 0.0;
  for (int64_t at = length * part / f.parts; at < length * (part + 1) / f.parts; ++at) {
    const int64_t row = sequence + at * f.sequences;
    if (f.weights != nullptr && f.weights[row] == 0.0f) continue;
    __syncthreads();
    load_row(logits, f.logits + row * f.experts, f.experts);
    const float log_sum_exp = normalize(scores, logits, f.experts, f.function);
    squares += static_cast<double>(log_sum_exp) * static_cast<double>(log_sum_exp);
    entropies += static_cast<double>(warp_reduce<Sum>(entropy_of(scores, f.experts)));
    for (int e = lane; e < f.experts; e += kRowThreads) sums[e] += static_cast<double>(scores[e]);
    __syncthreads();
    // counts are taken from logits: a softmax keeps their order, and logits have no ties from rounding
    float* const ranked = f.function == ScoreFunction::kSoftmax ? logits : scores;
    for (int e = lane; e < f.experts; e += kRowThreads) ranked[e] = ordered(ranked[e]);
    __syncthreads();
    Ranked expert = Ranked::start();
    for (int slot = 0; slot < f.top_k; ++slot) {
      expert = next_in_row(ranked, f.experts, expert);
      if (lane == 0) sums[f.experts + expert.at] += 1.0;
    }
  }
  __syncthreads();
  double* const to = f.partial + int64_t{blockIdx.x} * (2 * f.experts + 2);
  for (int e = lane; e < 2 * f.experts; e += kRowThreads) to[e] = sums[e];
  if (lane == 0) {
    to[2 * f.experts] = squares;
    to[2 * f.experts + 1] = entropies;
  }
}

struct Totals {
  float *counts, *score_sums, *squares, *entropies;
  const double* partial;
  int64_t experts, sequences, parts;
};

__global__ void add_parts_kernel(Totals t) {
  const int64_t sums = 2 * t.experts + 2, at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= t.sequences * sums) return;
  const int64_t sequence = at / sums, which = at % sums;
  double total = 0.0;
  for (int64_t part = 0; part < t.parts; ++part) total += t.partial[(sequence * t.parts + part) * sums + which];
  if (which < t.experts) {
    t.score_sums[sequence * t.experts + which] = static_cast<float>(total);
  } else if (which < 2 * t.experts) {
    t.counts[sequence * t.experts + which - t.experts] = static_cast<float>(total);
  } else if (which == 2 * t.experts) {
    t.squares[sequence] = static_cast<float>(total);
  } else {
    t.entropies[sequence] = static_cast<float>(total);
  }
}

struct Backward {
  float* logits_gradient;
  const float *score_gradients, *square_gradients, *logits, *weights;
  int64_t sequences;
  int experts;
  ScoreFunction function;
};

__global__ void __launch_bounds__(kRowThreads) backward_kernel(Backward b) {
  MTL_DYNAMIC_SHARED(bytes);
  float *const logits = reinterpret_cast<float*>(bytes), *const scores = logits + b.experts;
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t row = blockIdx.x, sequence = row % b.sequences;
  float* const to = b.logits_gradient + row * b.experts;
  if (b.weights != nullptr && b.weights[row] == 0.0f) {
    for (int e = lane; e < b.experts; e += kRowThreads) to[e] = 0.0f;
    return;
  }
  load_row(logits, b.logits + row * b.experts, b.experts);
  const Softmax softmax = softmax_of(logits, b.experts);
  const float log_sum_exp = normalize(scores, logits, b.experts, b.function),
              of_square = b.square_gradients == nullptr ? 0.0f : b.square_gradients[sequence];
  const float* const gradients = b.score_gradients == nullptr ? nullptr : b.score_gradients + sequence * b.experts;
  float mean = 0.0f, total = 0.0f;
  for (int e = lane; e < b.experts; e += kRowThreads) {
    if (gradients != nullptr) mean += gradients[e] * scores[e];
    if (b.function != ScoreFunction::kSoftmax) total += score(b.function, logits[e]);
  }
  mean = warp_reduce<Sum>(mean);
  total = warp_reduce<Sum>(total) + kSmallestSum;
  for (int e = lane; e < b.experts; e += kRowThreads) {
    float result = of_square == 0.0f ? 0.0f : 2.0f * log_sum_exp * of_square * softmax.of(logits[e]);
    if (gradients != nullptr) {
      const float by_logit = b.function == ScoreFunction::kSoftmax ? scores[e] : slope(b.function, logits[e]) / total;
      result += (gradients[e] - mean) * by_logit;
    }
    to[e] = result;
  }
}

Status expect_float32(const OpCall& call, int logits) {
  if (call.tensor(logits).dtype == DType::kFloat32) return ok_status();
  return error_status("MTL_DTYPE", "%s: float64 is computed on the reference device only", call.op);
}

Status forward(const OpCall& call) {
  using Op = RouterStatisticsForward;
  MTL_RETURN_IF_ERROR(expect_float32(call, Op::kLogits));
  const StatisticsParts parts = statistics_parts(call);
  KernelScratch scratch;
  MTL_RETURN_IF_ERROR(scratch.take(call));
  const int experts = static_cast<int>(parts.experts);
  const Forward f = {scratch.as<double>(0),
                     call.data<float>(Op::kLogits),
                     call.data<float>(Op::kRowWeights),
                     parts.rows,
                     parts.sequences,
                     experts,
                     static_cast<int>(call.integer(Op::kTopK)),
                     static_cast<int>(parts.count()),
                     static_cast<ScoreFunction>(call.integer(Op::kScoreFunction))};
  Launch launch = grid_of(parts.sequences * parts.count(), kRowThreads);
  launch.shared_bytes = static_cast<size_t>(experts) * (2 * sizeof(double) + 2 * sizeof(float));
  MTL_RUN_KERNEL(call, sum_rows_kernel, launch, f);
  const Totals totals = {call.data<float>(Op::kCounts),
                         call.data<float>(Op::kScoreSums),
                         call.data<float>(Op::kSquaredLogSumExp),
                         call.data<float>(Op::kEntropy),
                         scratch.as<double>(0),
                         parts.experts,
                         parts.sequences,
                         parts.count()};
  MTL_RUN_KERNEL(call, add_parts_kernel, grid_of(ceiling(parts.sequences * parts.sums(), kThreads), kThreads), totals);
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = RouterStatisticsBackward;
  MTL_RETURN_IF_ERROR(expect_float32(call, Op::kLogits));
  const int experts = static_cast<int>(call.tensor(Op::kLogits).dim(-1));
  const Backward b = {call.data<float>(Op::kLogitsGradient),
                      call.data<float>(Op::kScoreGradients),
                      call.data<float>(Op::kSquareGradients),
                      call.data<float>(Op::kLogits),
                      call.data<float>(Op::kRowWeights),
                      call.integer(Op::kNumSequences),
                      experts,
                      static_cast<ScoreFunction>(call.integer(Op::kScoreFunction))};
  Launch launch = grid_of(call.tensor(Op::kLogits).rows(), kRowThreads);
  launch.shared_bytes = static_cast<size_t>(2 * experts) * sizeof(float);
  MTL_RUN_KERNEL(call, backward_kernel, launch, b);
  return ok_status();
}

MTL_REGISTER_CUDA("router_statistics_forward", forward);
MTL_REGISTER_CUDA("router_statistics_backward", backward);

}  // namespace
}  // namespace mtl::cuda

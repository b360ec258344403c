// Scores and selection for a row of a router. A block has one warp, which computes a row.
#pragma once

#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/dispatch.h"
#include "ops/router.h"

namespace mtl::cuda {

constexpr int kRowThreads = 32;
constexpr float kSmallestSum = 1e-20f;  // added to sums of scores

__device__ __forceinline__ float infinity() { return __uint_as_float(0x7f800000u); }

__device__ __forceinline__ float sigmoid(float x) { return x < -88.0f ? 0.0f : 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float softplus(float x) { return (x > 0.0f ? x : 0.0f) + log1pf(expf(x > 0.0f ? -x : x)); }

// Returns the score of a logit by sigmoid or sqrt(softplus).
__device__ __forceinline__ float score(ScoreFunction function, float x) {
  return function == ScoreFunction::kSigmoid ? sigmoid(x) : sqrtf(softplus(x));
}

// Returns the derivative of a score with respect to its logit.
__device__ __forceinline__ float slope(ScoreFunction function, float x) {
  const float s = sigmoid(x);
  if (function == ScoreFunction::kSigmoid) return s == 0.0f ? 0.0f : s * (expf(-x) * s);  // 1 - s = e^-x s
  const float root = sqrtf(softplus(x));
  return root == 0.0f ? 0.0f : s / (2.0f * root);
}

// Results of a softmax over a row of values, the same on all lanes.
struct Softmax {
  float maximum, sum;

  __device__ __forceinline__ float of(float value) const { return expf(value - maximum) / sum; }
};

__device__ __forceinline__ Softmax softmax_of(const float* values, int count) {
  const int lane = static_cast<int>(threadIdx.x);
  float maximum = -infinity(), sum = 0.0f;
  for (int i = lane; i < count; i += kRowThreads) maximum = Maximum::combine(maximum, values[i]);
  maximum = warp_reduce<Maximum>(maximum);
  for (int i = lane; i < count; i += kRowThreads) sum += expf(values[i] - maximum);
  return {maximum, warp_reduce<Sum>(sum)};
}

__device__ __forceinline__ float sum_of(const float* values, int count) {
  float sum = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kRowThreads) sum += values[i];
  return warp_reduce<Sum>(sum);
}

// A position and its value, for a list in descending order. Of equal values, the lower position comes first.
struct Ranked {
  float value;
  int at;

  __device__ __forceinline__ static Ranked start() { return {infinity(), -1}; }
  __device__ __forceinline__ bool is_before(const Ranked& other) const {
    return value > other.value || (value == other.value && at < other.at);
  }
};

// Returns the value that follows `before` in descending order, among every `step`-th value from `first` on.
// No value is NaN.
__device__ __forceinline__ Ranked next_of(const float* values, int first, int count, int step, const Ranked& before) {
  Ranked best = {0.0f, -1};
  for (int i = first; i < count; i += step) {
    const Ranked one = {values[i], i};
    if (before.is_before(one) && (best.at < 0 || one.is_before(best))) best = one;
  }
  return best;
}

// Returns the value that follows `before` in descending order among all values, computed by all lanes
// together.
__device__ __forceinline__ Ranked next_in_row(const float* values, int count, const Ranked& before) {
  Ranked best = next_of(values, static_cast<int>(threadIdx.x), count, kRowThreads, before);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const Ranked other = {__shfl_xor_sync(kWholeWarp, best.value, distance), __shfl_xor_sync(kWholeWarp, best.at, distance)};
    if (other.at >= 0 && (best.at < 0 || other.is_before(best))) best = other;
  }
  return best;
}

// Returns the value that scores are ordered by: NaN counts as the largest.
__device__ __forceinline__ float ordered(float value) { return value != value ? infinity() : value; }

}  // namespace mtl::cuda

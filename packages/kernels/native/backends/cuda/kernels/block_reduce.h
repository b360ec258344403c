// Sums and maxima over a warp or a block. Every thread gets the same value, which is always computed in the
// same order.
#pragma once

#include "backends/cuda/launch.h"

namespace mtl::cuda {

constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr int kMaxWarps = 32;

struct Sum {
  template <typename V>
  __device__ static V combine(V a, V b) {
    return a + b;
  }
};

struct Maximum {
  // if the comparison is false because of a NaN on the left, returns the left operand, so that NaN propagates
  __device__ static float combine(float a, float b) { return a >= b || a != a ? a : b; }
};

template <typename Operation, typename V>
__device__ __forceinline__ V warp_reduce(V value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = Operation::combine(value, __shfl_xor_sync(kWholeWarp, value, distance));
  }
  return value;
}

// Reduces values over all threads of a block. The block's size must be a multiple of 32. `shared` must have
// room for kMaxWarps values. Some threads may still read it after the call, until the next barrier; the next
// call begins with a barrier.
template <typename Operation, typename V>
__device__ __forceinline__ V block_reduce(V value, V* shared) {
  value = warp_reduce<Operation>(value);
  const int num_warps = static_cast<int>(blockDim.x) / 32;
  if (num_warps == 1) return value;
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  V result = shared[0];
  for (int warp = 1; warp < num_warps; ++warp) result = Operation::combine(result, shared[warp]);
  return result;
}

}  // namespace mtl::cuda

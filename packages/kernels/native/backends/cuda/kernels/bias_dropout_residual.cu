// bias_dropout_residual_forward and _backward.
//
// Four words of a Philox block belong to columns 16 apart, so a thread takes N neighbouring counters and with
// them N columns in each of the four quarters of a group of 64: every random bit is used, and every access is
// 16 bytes wide. A thread issues all its loads of a group before it computes the random bits, and no load
// waits for a store. A block processes several rows if one would not fill it.
#include "backends/cuda/kernels/dispatch.h"
#include "backends/cuda/kernels/philox_mask.h"
#include "ops/bias_dropout_residual.h"

namespace mtl::cuda {
namespace {

template <typename T>
struct Arrays {
  T* output;
  const T *input, *bias, *residual;  // bias and residual may be null
  const int64_t* samples;            // [B], or one per row; may be null without dropout
  const int32_t* positions;          // one per row, or null
  int64_t rows, batch, columns;
  int64_t first_column;  // first column of the mask
};

// Computes dropout of N columns, after adding the bias and before adding the residual (which is not read if
// absent).
template <typename T, int N>
__device__ __forceinline__ void combine(const Arrays<T>& a, int64_t column, float (&values)[N], const float (&residual)[N],
                                        const float (&factors)[N]) {
  if (a.bias != nullptr) {
    float bias[N];
    load(bias, a.bias + column);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] += bias[i];
  }
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = factors[i] == 0.0f ? 0.0f : values[i] * factors[i];
  if (a.residual != nullptr) {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] += residual[i];
  }
}

template <typename T>
__device__ __forceinline__ MaskRow mask_row_of(const Arrays<T>& a, const DropoutMask& mask, int64_t row) {
  const bool own = a.positions != nullptr;
  const int64_t sample = mask.threshold == 0 ? 0 : a.samples[own ? row : row % a.batch];
  if (own) return mask_row(a.positions[row], sample);
  return mask_row(row / a.batch, sample);
}

// The assignment of a block's threads to rows: threads from rows * threads_of_row on are idle.
struct RowsOfBlock {
  int rows, threads_of_row;
};
RowsOfBlock rows_of_block(int64_t items_of_row) {
  const int threads = static_cast<int>(std::min<int64_t>(items_of_row, kThreads));
  return {kThreads / threads, threads};
}

// Processes columns in groups of 64; a thread has N counters of a group, and 16 / N threads share the group.
template <typename T>
__global__ void __launch_bounds__(kThreads) masked_groups_kernel(Arrays<T> a, DropoutMask mask, RowsOfBlock share) {
  constexpr int N = kPack<T>, kThreadsPerGroup = 16 / N, kQuarters = 4, kQuarter = kPhiloxGroup / kQuarters;
  const int row_of_block = static_cast<int>(threadIdx.x) / share.threads_of_row;
  const int first_item = static_cast<int>(threadIdx.x) % share.threads_of_row;
  const int64_t row = int64_t{blockIdx.x} * share.rows + row_of_block;
  if (row_of_block >= share.rows || row >= a.rows) return;
  const MaskRow coordinates = mask_row_of(a, mask, row);
  const int64_t at = row * a.columns;
  for (int64_t item = first_item; item * kPhiloxGroup < a.columns * kThreadsPerGroup; item += share.threads_of_row) {
    const int64_t group = item / kThreadsPerGroup;
    const int first = static_cast<int>(item % kThreadsPerGroup) * N;
    const int64_t column = group * kPhiloxGroup + first;
    Words input[kQuarters], residual[kQuarters] = {};
#pragma unroll
    for (int quarter = 0; quarter < kQuarters; ++quarter) {
      input[quarter] = in_one_access<Words>(a.input + at + column + quarter * kQuarter);
      if (a.residual != nullptr) residual[quarter] = in_one_access<Words>(a.residual + at + column + quarter * kQuarter);
    }
    uint32_t dropped[kQuarters] = {};  // has a bit for each of the N elements of a quarter
#pragma unroll 2  // interleaving more would use the registers of pending loads
    for (int i = 0; i < N; ++i) {
      const uint32_t counter = static_cast<uint32_t>((group + a.first_column / kPhiloxGroup) * 16 + first + i);
      const PhiloxBlock block = mask_words(mask, coordinates, counter);
#pragma unroll
      for (int quarter = 0; quarter < kQuarters; ++quarter) {
        dropped[quarter] |= (block.words[quarter] < mask.threshold ? 1u : 0u) << i;
      }
    }
#pragma unroll
    for (int quarter = 0; quarter < kQuarters; ++quarter) {
      float factors[N];
#pragma unroll
      for (int i = 0; i < N; ++i) factors[i] = dropped[quarter] >> i & 1u ? 0.0f : mask.scale;
      float values[N], added[N];
      unpack_all<T>(values, input[quarter]);
      unpack_all<T>(added, residual[quarter]);
      combine(a, column + quarter * kQuarter, values, added, factors);
      store(a.output + at + column + quarter * kQuarter, values);
    }
  }
}

// Processes rows of any length and alignment, and every row without dropout.
template <typename T, int N>
__global__ void rows_kernel(Arrays<T> a, DropoutMask mask) {
  const int64_t row = blockIdx.x;
  const MaskRow coordinates = mask_row_of(a, mask, row);
  for (int64_t column = int64_t{threadIdx.x} * N; column < a.columns; column += int64_t{blockDim.x} * N) {
    float factors[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      factors[i] = mask.threshold == 0 ? 1.0f : mask_factor(mask, coordinates, a.first_column + column + i);
    }
    const int64_t at = row * a.columns + column;
    float values[N], residual[N] = {};
    load(values, a.input + at);
    if (a.residual != nullptr) load(residual, a.residual + at);
    combine(a, column, values, residual, factors);
    store(a.output + at, values);
  }
}

template <typename T>
Status run(const OpCall& call, const Arrays<T>& a) {
  using Op = BiasDropoutResidualForward;
  const double probability = call.attribute(Op::kProbability);
  const DropoutMask mask = {{static_cast<uint32_t>(call.integer(Op::kKeyLow)),
                             static_cast<uint32_t>(call.integer(Op::kKeyHigh))},
                            dropout_threshold(probability),
                            static_cast<float>(1.0 / (1.0 - probability))};
  const bool packed = is_packed<T>(a.columns, {a.output, a.input, a.bias, a.residual});
  if (packed && mask.threshold != 0 && a.columns % kPhiloxGroup == 0 && a.first_column % kPhiloxGroup == 0) {
    const RowsOfBlock share = rows_of_block(a.columns / kPhiloxGroup * (16 / kPack<T>));
    const Launch how = grid_of(ceiling(a.rows, share.rows), row_threads(share.rows * share.threads_of_row));
    MTL_RUN_KERNEL(call, (masked_groups_kernel<T>), how, a, mask, share);
    return ok_status();
  }
  return for_width<T>(packed && mask.threshold == 0, [&](auto width) {
    constexpr int N = decltype(width)::value;
    MTL_RUN_KERNEL(call, (rows_kernel<T, N>), grid_of(a.rows, row_threads(ceiling(a.columns, N))), a, mask);
    return ok_status();
  });
}

Status forward(const OpCall& call) {
  using Op = BiasDropoutResidualForward;
  const TensorView& input = call.tensor(Op::kInput);
  return for_floating(call, input.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return run<T>(call, {call.data<T>(Op::kOutput), call.data<T>(Op::kInput), call.data<T>(Op::kBias),
                         call.data<T>(Op::kResidual), call.data<int64_t>(Op::kSamples),
                         call.data<int32_t>(Op::kPositions), input.rows(), input.dim(1), input.dim(2),
                         call.integer(Op::kFirstColumn)});
  });
}

Status backward(const OpCall& call) {
  using Op = BiasDropoutResidualBackward;
  const TensorView& gradient = call.tensor(Op::kOutputGradient);
  return for_floating(call, gradient.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return run<T>(call, {call.data<T>(Op::kInputGradient), call.data<T>(Op::kOutputGradient), nullptr, nullptr,
                         call.data<int64_t>(Op::kSamples), call.data<int32_t>(Op::kPositions),
                         gradient.rows(), gradient.dim(1), gradient.dim(2), call.integer(Op::kFirstColumn)});
  });
}

MTL_REGISTER_CUDA("bias_dropout_residual_forward", forward);
MTL_REGISTER_CUDA("bias_dropout_residual_backward", backward);

}  // namespace
}  // namespace mtl::cuda

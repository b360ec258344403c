// Softmax cross entropy: one block per row. The first pass finds the maximum and the sum of exponentials:
// each thread keeps its own running pair (Milakov and Gimelshein 2018, "Online normalizer calculation for
// softmax"), and the pairs are merged in a fixed order. The second pass computes the gradient. If the same
// launch runs both passes, the row is still in the cache: on an H100 at most 264 rows of 100 KB are in
// flight, half of its L2 cache of 50 MB.
#include "backends/cuda/loss/cross_entropy.h"

#include "backends/cuda/numbers.cuh"

namespace mtl::cuda {
namespace {

constexpr float kLog2E = 1.44269504088896340736f, kHidden = -INFINITY;
constexpr int64_t kMaxWidth = 1 << 30;    // column indices have 32 bits, and loads may go past the end of a row
constexpr int kMaxWarps = 16, kBatch = 4;  // kBatch: 16-byte loads in flight per thread

// Returns e^(from - to), where from - to is at most 0. Returns 0 if `from` is -infinity, also for -infinity -
// -infinity, between two empty sums.
MTL_PTX float shrink(float from, float to) { return from == kHidden ? 0.0f : fast_exp2((from - to) * kLog2E); }

struct Pair {
  float maximum = kHidden, sum = 0.0f;  // sum of e^(value - maximum)

  MTL_PTX void merge(const Pair& other) {
    const float highest = fmaxf(maximum, other.maximum);
    sum = sum * shrink(maximum, highest) + other.sum * shrink(other.maximum, highest);
    maximum = highest;
  }
};

// A group of columns as wide as a 16-byte access; `wide`: every row is aligned to 16 bytes.
template <typename T>
struct Group {
  static constexpr int kColumns = 16 / static_cast<int>(sizeof(T));
  T values[kColumns];

  MTL_PTX void load(const T* row, int first, int end, bool wide) {
    if (wide && first + kColumns <= end) {
      const uint4 bits = in_one_access<uint4>(row + first);
      memcpy(values, &bits, sizeof bits);
      return;
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) values[i] = first + i < end ? row[first + i] : Numbers<T>::narrow(kHidden);
  }
  MTL_PTX void store(T* row, int first, int end, bool wide) const {
    if (wide && first + kColumns <= end) {
      in_one_access<uint4>(row + first) = bits_as<uint4>(values);
      return;
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (first + i < end) row[first + i] = values[i];
    }
  }
  // Adds the columns to a pair. Columns past the end are -infinity and contribute nothing.
  MTL_PTX void add_to(Pair& pair) const {
    Pair mine;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) mine.maximum = fmaxf(mine.maximum, Numbers<T>::widen(values[i]));
    const float highest = fmaxf(pair.maximum, mine.maximum);
    pair.sum *= shrink(pair.maximum, highest);
    // e^(value - infinity) must be 0, not NaN, if all values are -infinity
    const float reference = highest == kHidden ? 0.0f : highest;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) pair.sum += fast_exp2((Numbers<T>::widen(values[i]) - reference) * kLog2E);
    pair.maximum = highest;
  }
};

// Merges the pairs of all threads; returns the same pair in all threads.
MTL_PTX Pair merge_block(Pair pair) {
  MTL_SHARED(Pair, of_warps, [kMaxWarps]);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    // two lanes merge the same pairs in the same order, so that both get the same bits
    const Pair other = {__shfl_xor_sync(0xffffffffu, pair.maximum, step), __shfl_xor_sync(0xffffffffu, pair.sum, step)};
    const bool first = (threadIdx.x & static_cast<unsigned>(step)) == 0;
    Pair left = first ? pair : other;
    left.merge(first ? other : pair);
    pair = left;
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = pair;
  __syncthreads();
  Pair all = of_warps[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) all.merge(of_warps[warp]);
  return all;
}

struct Row {
  int64_t number;
  int width, num_columns;
  int64_t label;  // column on this rank; negative or beyond num_columns: on another rank
  bool wide;
};

template <typename T>
MTL_PTX Pair row_statistics(const T* logits, const Row& row) {
  const int step = static_cast<int>(blockDim.x) * Group<T>::kColumns;
  Pair pair;
  for (int first = static_cast<int>(threadIdx.x) * Group<T>::kColumns; first < row.num_columns; first += kBatch * step) {
    Group<T> groups[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) groups[i].load(logits, first + i * step, row.num_columns, row.wide);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) groups[i].add_to(pair);
  }
  return merge_block(pair);
}

// Writes the gradient of a row, which may overwrite the logits. A thread reads a column before writing it,
// and no other thread accesses this column.
template <typename T>
MTL_PTX void write_gradient(T* gradient, const T* logits, const Row& row, float maximum, float sum, float weight) {
  const int step = static_cast<int>(blockDim.x) * Group<T>::kColumns;
  const float factor = weight / sum;
  for (int first = static_cast<int>(threadIdx.x) * Group<T>::kColumns; first < row.width; first += kBatch * step) {
    Group<T> groups[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) groups[i].load(logits, first + i * step, row.num_columns, row.wide);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
#pragma unroll
      for (int j = 0; j < Group<T>::kColumns; ++j) {
        const int column = first + i * step + j;
        const float exponential = fast_exp2((Numbers<T>::widen(groups[i].values[j]) - maximum) * kLog2E);
        const float value = exponential * factor - (column == row.label ? weight : 0.0f);
        groups[i].values[j] = Numbers<T>::narrow(column < row.num_columns && weight != 0.0f ? value : 0.0f);
      }
      groups[i].store(gradient, first + i * step, row.width, row.wide);
    }
  }
}

struct Arguments {
  const int32_t* labels;
  int64_t num_rows, first_column;
  int width, num_columns;
  bool wide;
  CrossEntropyRowStatistics statistics;
  CrossEntropyGradient to;
  IndexCheck check;
  int64_t ignored, first_row;
};

// Returns the weight of a row. The weight is 0 if the label is ignored, and NaN if the label is out of range;
// one thread of the row reports this error.
MTL_PTX float weight_of(const Arguments& a, int64_t row, bool reports) {
  const int64_t label = a.labels[row];
  const float weight = label == a.ignored ? 0.0f : a.to.weights[row];
  if (weight == 0.0f || a.check.is_valid(label)) return weight;
  if (reports) a.check.refuse(a.first_row + row, label);
  return NAN;
}

MTL_PTX Row row_of(const Arguments& a, int64_t number) {
  return {number, a.width, a.num_columns, a.labels[number] - a.first_column, a.wide};
}

MTL_PTX bool has_label(const Row& row) { return row.label >= 0 && row.label < row.num_columns; }

MTL_PTX float loss_of(float maximum, float sum, float label_logit, float weight) {
  // subtracts the maximum first, because a logarithm would lose its digits in a sum with a large maximum
  return weight == 0.0f ? 0.0f : weight != weight ? NAN : logf(sum) + (maximum - label_logit);
}

template <typename T, bool kStatistics, bool kGradient>
__global__ void __launch_bounds__(32 * kMaxWarps) cross_entropy_kernel(Arguments a, const T* logits) {
  const Row row = row_of(a, blockIdx.x);
  const T* mine = logits + row.number * row.width;
  float maximum, sum, label_logit;
  if constexpr (kStatistics) {
    label_logit = has_label(row) ? Numbers<T>::widen(mine[row.label]) : 0.0f;
    const Pair pair = row_statistics(mine, row);  // has a barrier: label_logit is read before gradients are written
    maximum = pair.maximum;
    sum = pair.sum;
    if (threadIdx.x == 0) {
      a.statistics.row_maximum[row.number] = maximum;
      a.statistics.row_sum[row.number] = sum;
      a.statistics.label_logit[row.number] = label_logit;
    }
  } else {
    maximum = a.statistics.row_maximum[row.number];
    sum = a.statistics.row_sum[row.number];
    label_logit = a.statistics.label_logit[row.number];
  }
  if constexpr (kGradient) {
    const float weight = weight_of(a, row.number, threadIdx.x == 0);
    if (threadIdx.x == 0) a.to.loss[row.number] = loss_of(maximum, sum, label_logit, weight);
    write_gradient(static_cast<T*>(a.to.logit_gradient) + row.number * row.width, mine, row, maximum, sum, weight);
  }
}

__global__ void loss_kernel(Arguments a) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= a.num_rows) return;
  const CrossEntropyRowStatistics& from = a.statistics;
  a.to.loss[row] = loss_of(from.row_maximum[row], from.row_sum[row], from.label_logit[row], weight_of(a, row, true));
}

__global__ void rescale_kernel(float* output, const float* row_sum, const float* row_maximum, const float* group_maximum,
                               int64_t num_rows) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < num_rows) output[row] = row_sum[row] * expf(row_maximum[row] - group_maximum[row]);
}

template <typename T>
Arguments arguments_of(const CrossEntropyRows& rows, const CrossEntropyRowStatistics& statistics, const CrossEntropyGradient& to) {
  const auto aligned = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; };
  const bool wide = rows.width % Group<T>::kColumns == 0 && aligned(rows.logits) && aligned(to.logit_gradient);
  return {rows.labels, rows.num_rows, rows.first_column, static_cast<int>(rows.width), static_cast<int>(rows.num_columns),
          wide, statistics, to, rows.check, rows.ignored, rows.first_row};
}

template <typename T, bool kStatistics, bool kGradient>
cudaError_t launch_rows(const CrossEntropyRows& rows, const CrossEntropyRowStatistics& statistics, const CrossEntropyGradient& to) {
  // each thread loads a batch, if the row has enough columns
  const int64_t useful = (rows.width + 32 * kBatch * Group<T>::kColumns - 1) / (32 * kBatch * Group<T>::kColumns);
  const unsigned num_warps = static_cast<unsigned>(useful < 1 ? 1 : useful < kMaxWarps ? useful : kMaxWarps);
  const Launch how = {dim3(static_cast<unsigned>(rows.num_rows)), dim3(32 * num_warps), 0, rows.stream};
  return MTL_LAUNCH((cross_entropy_kernel<T, kStatistics, kGradient>), how, arguments_of<T>(rows, statistics, to),
                    static_cast<const T*>(rows.logits));
}

template <bool kStatistics, bool kGradient>
cudaError_t launch(const CrossEntropyRows& rows, const CrossEntropyRowStatistics& statistics, const CrossEntropyGradient& to) {
  if (rows.num_rows == 0) return cudaSuccess;
  if (rows.width > kMaxWidth) return cudaErrorNotSupported;
  if (rows.dtype == DType::kFloat32) return launch_rows<float, kStatistics, kGradient>(rows, statistics, to);
  if (rows.dtype == DType::kBFloat16) return launch_rows<__nv_bfloat16, kStatistics, kGradient>(rows, statistics, to);
  if (rows.dtype == DType::kFloat16) return launch_rows<__half, kStatistics, kGradient>(rows, statistics, to);
  return cudaErrorNotSupported;
}

constexpr unsigned kThreadsPerRow = 256;

Launch one_thread_per_row(int64_t num_rows, cudaStream_t stream) {
  return {dim3(static_cast<unsigned>((num_rows + kThreadsPerRow - 1) / kThreadsPerRow)), dim3(kThreadsPerRow), 0, stream};
}

}  // namespace

cudaError_t cross_entropy_statistics(const CrossEntropyRows& rows, const CrossEntropyRowStatistics& to) {
  return launch<true, false>(rows, to, {});
}

cudaError_t cross_entropy_rescale(float* output, const float* row_sum, const float* row_maximum, const float* group_maximum,
                                  int64_t num_rows, cudaStream_t stream) {
  if (num_rows == 0) return cudaSuccess;
  return MTL_LAUNCH(rescale_kernel, one_thread_per_row(num_rows, stream), output, row_sum, row_maximum, group_maximum, num_rows);
}

cudaError_t cross_entropy_backward(const CrossEntropyRows& rows, const CrossEntropyRowStatistics& from,
                                   const CrossEntropyGradient& to) {
  if (to.logit_gradient != nullptr) return launch<false, true>(rows, from, to);
  if (rows.num_rows == 0) return cudaSuccess;
  return MTL_LAUNCH(loss_kernel, one_thread_per_row(rows.num_rows, rows.stream), arguments_of<float>(rows, from, to));
}

cudaError_t cross_entropy_forward_backward(const CrossEntropyRows& rows, const CrossEntropyRowStatistics& statistics,
                                           const CrossEntropyGradient& to) {
  if (to.logit_gradient != nullptr) return launch<true, true>(rows, statistics, to);
  const cudaError_t status = cross_entropy_statistics(rows, statistics);
  return status == cudaSuccess ? cross_entropy_backward(rows, statistics, to) : status;
}

}  // namespace mtl::cuda

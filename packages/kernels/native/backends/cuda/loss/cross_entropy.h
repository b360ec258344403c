// The cross entropy operations on CUDA. ops/cross_entropy.cc contains the contract, but all pointers are to
// device memory. One additional function serves a rank that has the whole vocabulary.
#pragma once

#include <cstdint>

#include "backends/cuda/index_check.cuh"
#include "backends/cuda/launch.h"
#include "mtl/dtype.h"

namespace mtl::cuda {

struct CrossEntropyRows {
  DType dtype;             // of logits: float32, bfloat16 or float16
  int64_t num_rows, width;  // N, V
  const void* logits;      // [N, V]
  const int32_t* labels;   // [N] global column indices
  int64_t first_column;    // global index of column 0
  int64_t num_columns;     // excluding padding
  cudaStream_t stream;
  // How the backward pass treats labels. A label out of range makes loss and gradient NaN, and an ignored
  // label makes both 0.
  IndexCheck check = {nullptr, "", "", INT64_MAX};
  int64_t ignored = INT64_MIN, first_row = 0;
};

// The statistics of each row. All arrays are [N].
struct CrossEntropyRowStatistics {
  float* row_maximum;
  float* row_sum;
  float* label_logit;
};

struct CrossEntropyGradient {
  void* logit_gradient;  // [N, V], of the dtype of logits, may be the logits' memory; null: loss only
  float* loss;           // [N]
  const float* weights;  // [N]
};

// Each function returns cudaErrorNotSupported if the dtype is not listed above or the width exceeds 2^30,
// otherwise the status of the launch.
cudaError_t cross_entropy_statistics(const CrossEntropyRows& rows, const CrossEntropyRowStatistics& to);
// output [N] = row_sum * exp(row_maximum - group_maximum); output may be row_sum.
cudaError_t cross_entropy_rescale(float* output, const float* row_sum, const float* row_maximum, const float* group_maximum,
                                  int64_t num_rows, cudaStream_t stream);
// Computes the loss and the gradient. `from` contains the statistics over the whole vocabulary, which means
// over all ranks.
cudaError_t cross_entropy_backward(const CrossEntropyRows& rows, const CrossEntropyRowStatistics& from,
                                   const CrossEntropyGradient& to);
// Computes cross_entropy_statistics and cross_entropy_backward for the same rows in one launch, with the same
// bits, and writes the statistics. The second read of a row hits the cache, so logits are read from memory
// once and written once.
cudaError_t cross_entropy_forward_backward(const CrossEntropyRows& rows, const CrossEntropyRowStatistics& statistics,
                                           const CrossEntropyGradient& to);

}  // namespace mtl::cuda

// The running softmax of flash attention's forward pass (Dao 2023, "FlashAttention-2", algorithm 1) and its
// final output, for attention_forward.cu and hopper_forward.cu.
#pragma once

#include "backends/cuda/attention/masks.cuh"
#include "backends/cuda/attention/results.cuh"

namespace mtl::cuda {

// The running softmax of 16 queries. A thread has two rows; until the end it has only its own columns' part
// of each row's sum.
template <int kWidth>
struct RunningRows {
  float output[kWidth / 8][4] = {};
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0f, 0.0f};

  // Updates one of the two rows with new scores and converts the scores to e^(score - maximum). Returns the
  // factor for the output accumulated so far. scale_log2: scale / ln 2.
  template <int kTiles>
  MTL_PTX float absorb_row(float (&scores)[kTiles][4], int half, float scale_log2) {
    float highest = maximum[half];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) highest = fmaxf(highest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    highest = fmaxf(highest, __shfl_xor_sync(kWholeWarp, highest, 1));
    highest = fmaxf(highest, __shfl_xor_sync(kWholeWarp, highest, 2));
    // for a query without keys so far any finite number is valid, but -infinity would give NaN
    const float reference = highest == -INFINITY ? 0.0f : highest * scale_log2;
    const float shrink = fast_exp2(maximum[half] * scale_log2 - reference);
    maximum[half] = highest;
    sum[half] *= shrink;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n][i] = fast_exp2(scores[n][i] * scale_log2 - reference);
        sum[half] += scores[n][i];
      }
    }
    return shrink;
  }

  MTL_PTX void rescale(int half, float shrink) {
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      output[n][2 * half] *= shrink;
      output[n][2 * half + 1] *= shrink;
    }
  }

  // Updates both rows and scales their output.
  MTL_PTX void absorb(float (&scores)[kTile / 8][4], float scale_log2) {
#pragma unroll
    for (int half = 0; half < 2; ++half) rescale(half, absorb_row(scores, half, scale_log2));
  }
};

// Writes the output of 16 queries after their last key. scratch: see store_rows.
template <typename T, int kWidth, typename Arguments>
MTL_PTX void finish_rows(const Arguments& a, const HeadPlace& place, RunningRows<kWidth>& rows, int first_query,
                         T* scratch) {
  float factors[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = rows.sum[half];
    sum += __shfl_xor_sync(kWholeWarp, sum, 1);
    sum += __shfl_xor_sync(kWholeWarp, sum, 2);
    const int lane = static_cast<int>(threadIdx.x) % 32, query = first_query + lane / 4 + 8 * half;
    const bool empty = sum == 0.0f;
    factors[half] = empty ? 0.0f : (a.dropout_threshold == 0 ? 1.0f : a.inverse_keep) / sum;
    if (lane % 4 == 0 && query < a.sequence && a.log_sum_exp != nullptr) {
      a.log_sum_exp[place.statistics + query] =
          empty ? static_cast<float>(kEmptyLogSumExp) : rows.maximum[half] * a.scale + logf(sum);
    }
  }
  store_results<T, kWidth>(a, a.output, place, first_query, a.sequence - first_query, 0, rows.output, factors, scratch, false);
}

}  // namespace mtl::cuda

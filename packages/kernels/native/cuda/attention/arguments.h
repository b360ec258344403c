// What every attention kernel is given, by value.
#pragma once

#include "cuda/attention/attention.h"

namespace mtl::cuda {

constexpr float kLog2E = 1.44269504088896340736f;

struct AttentionArguments {
  int sequence, batch, heads, head_size;
  const int32_t* key_start;  // [B, S], or null
  const uint8_t* key_mask;   // [B, S], or null
  const int64_t* samples;    // [B], or null
  bool causal;
  float scale;
  uint32_t dropout_threshold;  // 0: no dropout
  float inverse_keep;          // 1 / (1 - probability)
  PhiloxKey key;
  int64_t head_offset;
};

inline AttentionArguments attention_arguments(const AttentionProblem& problem) {
  return {static_cast<int>(problem.sequence),
          static_cast<int>(problem.batch),
          static_cast<int>(problem.heads),
          static_cast<int>(problem.head_size),
          problem.key_start,
          problem.key_mask,
          problem.samples,
          problem.causal,
          static_cast<float>(problem.scale),
          dropout_threshold(problem.dropout_probability),
          static_cast<float>(1.0 / (1.0 - problem.dropout_probability)),
          problem.key,
          problem.head_offset};
}

// Which head of which sample a block works on, and where its rows are. Rows of qkv are qkv_stride elements apart.
struct HeadPlace {
  int batch, head;
  int64_t qkv, qkv_stride, output, output_stride, statistics;
};

MTL_HOST_DEVICE inline HeadPlace head_place(const AttentionArguments& a, int head_of_batch) {
  const int batch = head_of_batch / a.heads;
  const int64_t row = static_cast<int64_t>(a.batch) * a.heads * a.head_size;
  const int64_t first = static_cast<int64_t>(head_of_batch) * a.head_size;
  return {batch, head_of_batch % a.heads, 3 * first, 3 * row, first, row, static_cast<int64_t>(head_of_batch) * a.sequence};
}

// One kernel family each; the caller has checked dtype, head size and alignment.
cudaError_t launch_attention_forward(const AttentionForward& call);
cudaError_t launch_attention_query_gradient(const AttentionBackward& call);
cudaError_t launch_attention_key_value_gradient(const AttentionBackward& call);
cudaError_t launch_attention_delta(const AttentionBackward& call);
cudaError_t launch_plain_attention_forward(const AttentionForward& call);
cudaError_t launch_plain_attention_backward(const AttentionBackward& call);

}  // namespace mtl::cuda

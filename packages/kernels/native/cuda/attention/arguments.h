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
  int64_t qkv_stride, output_stride;  // elements from one position to the next
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
          problem.head_offset,
          3 * problem.batch * problem.heads * problem.head_size,
          problem.batch * problem.heads * problem.head_size};
}

// Which head of which sample a block works on, and where it begins in each tensor.
struct HeadPlace {
  int batch, head;
  int64_t qkv, output, statistics;
};

MTL_HOST_DEVICE inline HeadPlace head_place(const AttentionArguments& a, int head_of_batch) {
  const int64_t first = static_cast<int64_t>(head_of_batch) * a.head_size;
  return {head_of_batch / a.heads, head_of_batch % a.heads, 3 * first, first, static_cast<int64_t>(head_of_batch) * a.sequence};
}

// One kernel family each; the caller has checked dtype, head size and alignment.
cudaError_t launch_attention_forward(const AttentionForward& call);
cudaError_t launch_attention_query_gradient(const AttentionBackward& call);
cudaError_t launch_attention_key_value_gradient(const AttentionBackward& call);
cudaError_t launch_attention_delta(const AttentionBackward& call);
cudaError_t launch_plain_attention_forward(const AttentionForward& call);
cudaError_t launch_plain_attention_backward(const AttentionBackward& call);

}  // namespace mtl::cuda

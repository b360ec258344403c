// What every attention kernel is given, by value.
#pragma once

#include "backends/cuda/attention/attention.h"

namespace mtl::cuda {

// For accesses of 16 bytes.
inline bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

constexpr float kLog2E = 1.44269504088896340736f;

struct AttentionArguments {
  int sequence, batch, heads, head_size;  // of packed samples: the longest, until enter_head
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
  const int32_t* starts;              // of packed samples [B + 1], or null
  int64_t rows;                       // of packed samples
};

// Of a problem with a supported layout.
inline AttentionArguments attention_arguments(const AttentionProblem& problem) {
  return {static_cast<int>(problem.num_queries),
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
          problem.philox_key,
          problem.head_offset,
          problem.query.position,
          problem.output.position,
          problem.starts,
          problem.rows};
}

// Which head of which sample a block works on, and where it begins in each tensor.
struct HeadPlace {
  int batch, head;
  int64_t qkv, output, statistics;
};

// The place of a head where all samples have one length.
MTL_HOST_DEVICE inline HeadPlace head_place(const AttentionArguments& a, int head_of_batch) {
  const int64_t first = static_cast<int64_t>(head_of_batch) * a.head_size;
  return {head_of_batch / a.heads, head_of_batch % a.heads, 3 * first, first, static_cast<int64_t>(head_of_batch) * a.sequence};
}

// The same for packed samples too, each of which has its own length: the arguments have it from here on, and
// blocks may begin behind its end.
MTL_HOST_DEVICE inline HeadPlace enter_head(AttentionArguments& a, int head_of_batch) {
  if (a.starts == nullptr) return head_place(a, head_of_batch);
  const int batch = head_of_batch / a.heads, head = head_of_batch % a.heads, start = a.starts[batch];
  a.sequence = a.starts[batch + 1] - start;
  const int64_t first = (static_cast<int64_t>(start) * a.heads + head) * a.head_size;
  return {batch, head, 3 * first, first, head * a.rows + start};
}

// One kernel family each; the caller has checked dtype, head size and alignment.
cudaError_t launch_attention_forward(const AttentionForwardCall& call);
cudaError_t launch_attention_query_gradient(const AttentionBackwardCall& call);
cudaError_t launch_attention_key_value_gradient(const AttentionBackwardCall& call);
cudaError_t launch_attention_delta(const AttentionBackwardCall& call);
cudaError_t launch_plain_attention_forward(const AttentionForwardCall& call);
cudaError_t launch_plain_attention_backward(const AttentionBackwardCall& call);

}  // namespace mtl::cuda

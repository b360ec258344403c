// The arguments of all attention kernels, which are passed by value.
#pragma once

#include "backends/cuda/alignment.h"
#include "backends/cuda/attention/attention.h"

namespace mtl::cuda {

constexpr float kLog2E = 1.44269504088896340736f;

struct AttentionArguments {
  int sequence, num_keys;      // number of queries and keys; of packed samples the longest's, until enter_head
  int batch, heads, members, head_size;
  int first_query, first_key;  // positions in the sequence
  int first_position;          // position of query 0, counted from the call's first key
  int window;                  // read by the kernels without tensor cores; for the others it is kNoWindow
  const int32_t* key_start;  // [B, S], or null
  const uint8_t* key_mask;   // [B, num_keys], or null
  const int64_t* samples;    // [B], or null
  bool causal;
  float scale;
  uint32_t dropout_threshold;  // 0: no dropout
  float inverse_keep;          // 1 / (1 - probability)
  PhiloxKey philox_key;
  int64_t head_offset;
  const int32_t* starts;         // packed samples: [B + 1], or null
  const int32_t* query_starts;   // for the kernels without tensor cores; in the others, queries have the rows of keys
  const int32_t *first_queries, *first_keys;  // for the kernels without tensor cores; null for the others
  int64_t rows;                  // number of rows of queries; for packed samples only
  AttentionOperand query, key, value, output;
  int64_t value_offset;  // elements from a row of keys to its values, if their strides are equal
  float* log_sum_exp;
  // The following arguments are for the backward pass.
  AttentionOperand output_gradient, query_gradient, key_gradient, value_gradient;
  bool accumulate;
  const float* delta;  // rowSums of the op, in the layout of log_sum_exp
};

// The arguments of a call for whole sequences (see is_part). Functions that accept both this type and
// AttentionArguments read fewer fields if they get this type, because kernels with many sums have no
// registers for the other fields.
struct WholeArguments : AttentionArguments {};

struct Positions {
  int num_keys, first_query, first_key, first_position;
};
MTL_HOST_DEVICE inline Positions positions_of(const AttentionArguments& a) {
  return {a.num_keys, a.first_query, a.first_key, a.first_position};
}
MTL_HOST_DEVICE inline Positions positions_of(const WholeArguments& a) { return {a.sequence, 0, 0, 0}; }

// Returns true if a result is stored in float32, and not in the operands' type.
MTL_HOST_DEVICE inline bool is_exact(const AttentionArguments&, const AttentionOperand& result) {
  return result.dtype == DType::kFloat32;
}
MTL_HOST_DEVICE inline bool is_exact(const WholeArguments&, const AttentionOperand&) { return false; }

// Returns the distance between two operands, in elements.
inline int64_t elements_between(const AttentionProblem& problem, const AttentionOperand& from, const AttentionOperand& to) {
  return (static_cast<const char*>(to.data) - static_cast<const char*>(from.data)) / static_cast<int64_t>(size_of(problem.dtype));
}

// Returns the arguments for a problem, whose layout must be supported.
inline AttentionArguments attention_arguments(const AttentionProblem& problem) {
  return {static_cast<int>(problem.num_queries),
          static_cast<int>(problem.num_keys),
          static_cast<int>(problem.batch),
          static_cast<int>(problem.heads),
          static_cast<int>(problem.heads / problem.groups),
          static_cast<int>(problem.head_size),
          static_cast<int>(problem.first_query),
          static_cast<int>(problem.first_key),
          static_cast<int>(problem.first_query - problem.first_key),
          static_cast<int>(problem.window),
          problem.key_start,
          problem.key_mask,
          problem.samples,
          problem.causal,
          static_cast<float>(problem.scale),
          dropout_threshold(problem.dropout_probability),
          static_cast<float>(1.0 / (1.0 - problem.dropout_probability)),
          problem.philox_key,
          problem.head_offset,
          problem.starts,
          problem.query_starts,
          problem.first_queries,
          problem.first_keys,
          problem.query_rows,
          problem.query,
          problem.key,
          problem.value,
          problem.output,
          elements_between(problem, problem.key, problem.value),
          log_sum_exp_of(problem),
          problem.output_gradient,
          problem.query_gradient,
          problem.key_gradient,
          problem.value_gradient,
          problem.accumulate,
          static_cast<const float*>(problem.row_sums)};
}

// The query head and the sample that a block processes. A block of keys processes all members of a group, one
// after another.
struct HeadPlace {
  int batch, group, member;
  int first_row;       // first row of the sample, if samples are packed
  int64_t statistics;  // the head's first element in log_sum_exp and delta
};

// Returns the place of a head if all samples have the same length.
MTL_HOST_DEVICE inline HeadPlace head_place(const AttentionArguments& a, int head_of_batch) {
  const int head = head_of_batch % a.heads;
  return {head_of_batch / a.heads, head / a.members, head % a.members, 0, static_cast<int64_t>(head_of_batch) * a.sequence};
}

// Returns the place of a head for samples of any kind. If samples are packed, also stores the length of the
// block's sample in `a`; the block may begin past the end of its sample.
MTL_HOST_DEVICE inline HeadPlace enter_head(AttentionArguments& a, int head_of_batch) {
  HeadPlace place = head_place(a, head_of_batch);
  if (a.starts == nullptr) return place;
  place.first_row = a.starts[place.batch];
  a.num_keys = a.sequence = a.starts[place.batch + 1] - place.first_row;
  place.statistics = head_of_batch % a.heads * a.rows + place.first_row;
  return place;
}

// Returns blockIdx.y again, so that a kernel recomputes its head's offsets when it ends. The compiler cannot
// know that the value is the same, and therefore does not keep the offsets in registers until then.
#if defined(__CUDACC__)
__device__ __forceinline__ int reread_block_y() {
  int number;
  asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(number));
  return number;
}
#else
inline int reread_block_y() { return static_cast<int>(blockIdx.y); }
#endif

// Advances to the next head of the group.
MTL_HOST_DEVICE inline void enter_next_member(const AttentionArguments& a, HeadPlace& place) {
  ++place.member;
  place.statistics += a.starts == nullptr ? a.sequence : a.rows;
}

// Returns the offset of the first element of a head's rows in an operand.
MTL_HOST_DEVICE inline int64_t first_element(const AttentionOperand& operand, const HeadPlace& place) {
  return place.first_row * operand.position + place.batch * operand.sample + place.group * operand.group +
         place.member * operand.member;
}
template <typename T>
MTL_HOST_DEVICE inline T* rows_of(const AttentionOperand& operand, const HeadPlace& place) {
  return static_cast<T*>(operand.data) + first_element(operand, place);
}

// Each of these functions launches one family of kernels. The caller must have checked dtype, head size and
// alignment.
cudaError_t launch_attention_forward(const AttentionForwardCall& call);
cudaError_t launch_attention_query_gradient(const AttentionBackwardCall& call);
cudaError_t launch_attention_key_value_gradient(const AttentionBackwardCall& call);
cudaError_t launch_plain_attention_forward(const AttentionForwardCall& call);
cudaError_t launch_generation_attention(const AttentionForwardCall& call);
cudaError_t launch_plain_attention_backward(const AttentionBackwardCall& call);

}  // namespace mtl::cuda

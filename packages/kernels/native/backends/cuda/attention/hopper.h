// Attention on Hopper's tensor cores: when it is used, and what its launches have in common.
#pragma once

#include <type_traits>

#include "backends/cuda/attention/arguments.h"
#include "backends/cuda/attention/hopper_queries.cuh"
#include "backends/cuda/attention/query_statistics.cuh"

namespace mtl::cuda {

// Returns true if a call that is suitable for tensor cores uses Hopper's kernels, and false if it uses the
// kernels for any GPU.
bool is_for_hopper(const AttentionProblem& problem);

// These functions launch the kernels for heads of 40 to 256 columns. All other conditions are in arguments.h.
cudaError_t launch_hopper_attention_forward(const AttentionForwardCall& call);
cudaError_t launch_hopper_attention_backward(const AttentionBackwardCall& call);

cudaError_t launch_hopper_attention_query_gradient(const AttentionBackwardCall& call, const BackwardMaps& maps);
cudaError_t launch_hopper_attention_key_value_gradient(const AttentionBackwardCall& call, const BackwardMaps& maps);
// Computes the gradients of keys and values for heads of more than 128 columns.
// launch_hopper_attention_backward calls it.
cudaError_t launch_hopper_wide_key_value_gradient(const AttentionBackwardCall& call, const BackwardMaps& maps);

// Returns the tile width for a head size.
constexpr int hopper_width(int64_t head_size) {
  return head_size <= 64 ? 64 : head_size <= 80 ? 80 : head_size <= 96 ? 96 : head_size <= 128 ? 128 : head_size <= 192 ? 192 : 256;
}

// Creates tensor maps for the rows of an operand whose elements have 16 bits, with `positions` rows per
// sample. The operand's address and strides must be aligned to 16 bytes.
cudaError_t make_panel_maps(PanelMaps* maps, const AttentionOperand& operand, int64_t positions, const AttentionProblem& problem);

// Returns a list of all heads' query tiles, each of `rows` queries.
QueryList query_list(const AttentionProblem& problem, int rows);
int num_multiprocessors();

// Calls `launch` with the template parameters of the kernels: the element type (__nv_bfloat16 or __half) and,
// as std::integral_constant, the tile width (one of kWidths) and a boolean that is true if there is dropout.
template <int... kWidths, typename LaunchKernel>
cudaError_t with_hopper_kernel(const AttentionProblem& problem, const LaunchKernel& launch) {
  const bool dropout = dropout_threshold(problem.dropout_probability) != 0;
  const auto of_width = [&](auto element, auto width) {
    return dropout ? launch(element, width, std::true_type{}) : launch(element, width, std::false_type{});
  };
  const auto of_element = [&](auto element) {
    const int width = hopper_width(problem.head_size);
    cudaError_t status = cudaErrorNotSupported;
    (void)((width == kWidths && (status = of_width(element, std::integral_constant<int, kWidths>{}), true)) || ...);
    return status;
  };
  return problem.dtype == DType::kBFloat16 ? of_element(__nv_bfloat16{}) : of_element(__half{});
}

// Returns a launch with one block per Shape::kRows rows (queries or keys) of every head. There are num_rows
// rows, and num_heads heads per sample. If samples are packed, num_rows is the length of the longest sample.
template <typename Shape>
Launch hopper_launch(const AttentionArguments& a, int num_rows, int num_heads, cudaStream_t stream) {
  const unsigned num_blocks = static_cast<unsigned>((num_rows + Shape::kRows - 1) / Shape::kRows);
  return {dim3(num_blocks, static_cast<unsigned>(a.batch * num_heads)), Shape::kThreadsOfBlock, Shape::kBytes, stream};
}

}  // namespace mtl::cuda

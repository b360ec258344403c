// Attention on Hopper's tensor cores: when, and what the launches share.
#pragma once

#include "cuda/attention/arguments.h"
#include "cuda/attention/hopper_tiles.cuh"
#include "cuda/runtime/tensor_map.h"

namespace mtl::cuda {

// Whether a call that fits tensor cores goes to these kernels, or to those for any card.
bool is_for_hopper(const AttentionProblem& problem);

// Heads of 40 to 128 columns, samples of one length; otherwise as the launches of arguments.h.
cudaError_t launch_hopper_attention_forward(const AttentionForward& call);
cudaError_t launch_hopper_attention_query_gradient(const AttentionBackward& call);
cudaError_t launch_hopper_attention_key_value_gradient(const AttentionBackward& call);

// Maps of a tensor [S, B, A, parts, D].
template <int kWidth>
cudaError_t make_panel_maps(PanelMaps* maps, const void* data, int parts, const AttentionProblem& problem, DType dtype) {
  using Tile = HopperTile<kWidth, kBoxRows>;
  TensorMapShape shape = {data, dtype == DType::kFloat16, problem.sequence, parts * problem.batch * problem.heads,
                          problem.head_size, kBoxRows, 64, Swizzle::k128};
  const cudaError_t status = make_tensor_map(&maps->full, shape);
  if (status != cudaSuccess || Tile::kRest == 0) return maps->rest = maps->full, status;
  shape.box_columns = Tile::kRest;
  shape.swizzle = Tile::kRestSwizzle;
  return make_tensor_map(&maps->rest, shape);
}

}  // namespace mtl::cuda

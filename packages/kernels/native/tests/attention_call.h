// The operands of an attention call by name, for tests that compare kernels with the reference.
#pragma once

#include <vector>

#include "ops/attention.h"

namespace mtl::tests {

// Strided views of a packed projection [S, B, G, R + 2, D] or [T, G, R + 2, D].
struct ProjectionViews {
  TensorView query, key, value;
};
ProjectionViews parts_of(const TensorView& qkv);

// The tensors of attention_backward, absent or not, and its attributes, which are those of attention_forward.
struct AttentionCall {
  TensorView tensors[AttentionBackward::kSamples + 1] = {};
  double attributes[AttentionBackward::kNumScores + 1] = {};

  TensorView& operator[](AttentionBackward::Tensors tensor) { return tensors[tensor]; }
  double& operator[](AttentionBackward::Attributes attribute) { return attributes[attribute]; }
  void set_projections(const TensorView& qkv, const TensorView& qkv_gradient);
  // Of both directions.
  AttentionProblem problem() const;
  // Forward and backward on the reference.
  void run_on_reference() const;
};

// A call without windows, masks and dropout, whose queries begin at the first key.
AttentionCall plain_attention_call(double scale);

}  // namespace mtl::tests

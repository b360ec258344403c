// The operands of an attention call by name, for tests that compare kernels with the reference.
#pragma once

#include <vector>

#include "ops/attention.h"
#include "tests/cuda_kernel_test.h"

namespace mtl::tests {

// Strided views of a packed projection [S, B, G, R + 2, D] or [T, G, R + 2, D].
struct ProjectionViews {
  TensorView query, key, value;
};
ProjectionViews parts_of(const TensorView& qkv);
// The same of rows of R queries, a key and a value that has another size: [..., R D + D + E].
ProjectionViews unequal_parts_of(const TensorView& rows, int64_t members, int64_t head_size);

// The output of attention_forward, the tensors of attention_backward, absent or not, and the attributes of
// attention_backward, which begin with the attributes of attention_forward.
struct AttentionCall {
  TensorView output = {};
  TensorView tensors[AttentionBackward::kSamples + 1] = {};
  double attributes[AttentionBackward::kAccumulate + 1] = {};

  TensorView& operator[](AttentionBackward::Tensors tensor) { return tensors[tensor]; }
  const TensorView& operator[](AttentionBackward::Tensors tensor) const { return tensors[tensor]; }
  double& operator[](AttentionBackward::Attributes attribute) { return attributes[attribute]; }
  void set_projections(const TensorView& qkv, const TensorView& qkv_gradient) {
    set_operands(parts_of(qkv), parts_of(qkv_gradient));
  }
  void set_operands(const ProjectionViews& parts, const ProjectionViews& gradients);
  // The problem with the operands of both directions.
  AttentionProblem problem() const;
  // Computes rowSums from the output, on the reference.
  void sum_rows() const;
  // Runs forward and backward on the reference.
  void run_on_reference() const;

 private:
  std::vector<TensorView> tensors_of_forward() const;
};

// A call without windows, masks and dropout, whose queries begin at the first key.
AttentionCall plain_attention_call(double scale);

}  // namespace mtl::tests

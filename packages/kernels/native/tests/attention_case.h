// Attention problems of native tests: sizes, masks and dropout, with all tensors, their call and its results
// on the reference device.
#pragma once

#include <string>
#include <vector>

#include "tests/attention_call.h"
#include "tests/cuda_kernel_test.h"

namespace mtl::tests {

struct AttentionCase {
  int64_t sequence, batch, heads, head_size;
  bool causal = false;
  double dropout = 0.0;
  bool documents = false, padding = false;
  double scale = 0.0;  // factor of the scores; 0: 1 / sqrt(head size)
  int64_t members = 1;  // heads that share a key and a value
  int64_t window = -1;
  int64_t first_query = 0, first_key = 0;  // positions in the sequence
  bool exact = false;  // results in float32, and gradients to which the call adds
  int64_t value_size = 0;  // elements of a row of value and output; 0: head_size
  double soft_cap = 0.0;

  int64_t size_of_values() const { return value_size == 0 ? head_size : value_size; }
  std::vector<int64_t> projection() const {
    if (value_size != 0) return {sequence, batch, heads / members, (members + 1) * head_size + value_size};
    return {sequence, batch, heads / members, members + 2, head_size};
  }
};

std::string name_of_case(const AttentionCase& one, DType dtype);

// All tensors of a case; inputs are random, outputs poisoned or, where they are added to, random.
struct AttentionTensors {
  HostTensor qkv, output, log_sum_exp, output_gradient, qkv_gradient, row_sums, key_start, key_mask, samples, first_keys;

  AttentionTensors(const AttentionCase& one, DType dtype);
};

AttentionCall call_of(const AttentionCase& one, const AttentionTensors& tensors);
// The reference's results, in float32 for any input dtype.
AttentionTensors reference_of(const AttentionCase& one, DType dtype);

}  // namespace mtl::tests

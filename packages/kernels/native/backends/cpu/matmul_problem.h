// Describes one matmul on host memory, for the kernels that compute it.
#pragma once

#include "core/op_call.h"

namespace mtl {

// output[batch, rows, columns] = op(left) @ op(right) + bias, plus the old output if `accumulate` is true; op
// transposes an operand or leaves it unchanged. The distance between the rows of a stored matrix may be
// larger than their length. The matrices of a batch follow each other without gaps.
struct MatmulProblem {
  void* output;
  const void* left;
  const void* right;
  const void* bias;  // [columns], or null
  int64_t batch, rows, columns, inner;
  bool transpose_left;   // left is stored [inner, rows]
  bool transpose_right;  // right is stored [columns, inner]
  bool accumulate;
  DType input_dtype, output_dtype, bias_dtype;
  int64_t left_row_length, right_row_length, output_row_length;  // from one stored row to the next, in elements

  // Returns the same problem without gaps between rows.
  MatmulProblem contiguous() const {
    MatmulProblem problem = *this;
    problem.left_row_length = transpose_left ? rows : inner;
    problem.right_row_length = transpose_right ? inner : columns;
    problem.output_row_length = columns;
    return problem;
  }
};

// Returns the problem that a call of the op `matmul` describes.
MatmulProblem matmul_problem_of(const OpCall& call);

}  // namespace mtl

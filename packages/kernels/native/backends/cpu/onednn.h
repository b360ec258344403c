// The only interface to oneDNN: one matmul, through the C API, for versions 2 and 3. Primitives are cached by
// shape. Callable from any thread, one matmul at a time (each calling thread gets its own OpenMP team).
#pragma once

#include "core/status.h"
#include "core/tensor_view.h"

namespace mtl {

// output[batch, rows, columns] = op(left) op(right) + bias (+ output when accumulate). Rows of a stored
// matrix may be further apart than they are long; the matrices of a batch follow one another.
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

  // Without space between rows.
  MatmulProblem contiguous() const {
    MatmulProblem problem = *this;
    problem.left_row_length = transpose_left ? rows : inner;
    problem.right_row_length = transpose_right ? inner : columns;
    problem.output_row_length = columns;
    return problem;
  }
};

// Whether the library multiplies matrices of this dtype on this CPU (bfloat16: with AVX-512 only).
bool onednn_multiplies(DType dtype);

Status onednn_matmul(const MatmulProblem& problem);

// Sizes in bytes of the two blocks of scratch memory that `onednn_matmul` allocates together, both also when
// they are empty.
struct MatmulScratch {
  size_t scratchpad = 0;
  size_t packed_right = 0;  // the right operand in the library's own layout
};

// The most that a matmul takes. Of the operands only the presence of a bias matters.
Status onednn_scratch(const MatmulProblem& problem, MatmulScratch* scratch);

// The version that was loaded, such as "2.6.3".
const char* onednn_version();

}  // namespace mtl

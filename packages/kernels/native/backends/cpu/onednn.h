// The only interface to oneDNN: one matmul, through the C API, for versions 2 and 3. Primitives are cached by
// shape. Callable from any thread, one matmul at a time (each calling thread gets its own OpenMP team).
#pragma once

#include "core/status.h"
#include "core/tensor_view.h"

namespace mtl {

// output[batch, rows, columns] = op(left) op(right) + bias (+ output when accumulate)
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
};

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

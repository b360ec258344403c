// The only door to oneDNN: one matmul, through the C API, for versions 2 and 3. Primitives are cached
// by shape. Callable from any thread, one matmul at a time (each calling thread gets an OpenMP team of its
// own).
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

// Bytes of the two blocks of scratch memory that `onednn_matmul` takes at a time, both also where they are
// empty.
struct MatmulScratch {
  size_t scratchpad = 0;
  size_t packed_right = 0;  // the right operand in the library's own layout
};

// What a matmul takes at most. Of the operands only the presence of a bias is looked at.
Status onednn_scratch(const MatmulProblem& problem, MatmulScratch* scratch);

// "2.6.3": the version that was loaded.
const char* onednn_version();

}  // namespace mtl

// The only door to cuBLASLt: found at run time, one handle, one workspace, algorithms kept by shape.
#pragma once

#include "core/status.h"
#include "core/tensor_view.h"

namespace mtl::cuda {

// Opens the first of the candidates (one a line) that dlopen takes. Fails with MTL_CUBLASLT, listing what was
// tried.
Status load_cublaslt(const char* candidates, bool allow_tf32);
// After the device is open: makes the handle.
Status open_cublaslt();
const char* cublaslt_path();
uint64_t cublaslt_version();

// output[batch, rows, columns] = op(left) op(right) + bias (+ output when accumulate), all of it row by row.
// Matmuls sum in float32; float16 and bfloat16 are rounded once, at the end.
//
// Deterministic: the algorithm is the first of the library's own order, the same for the same shape and
// alignment, and never one whose parts of a sum race for the output.
enum class FusedWith {
  kNothing,        // but a bias
  kGelu,           // output = gelu(matmul + bias), tanh approximation; auxiliary = matmul + bias
  kGeluGradient,   // output = matmul * gelu'(auxiliary)
  kBiasGradient,   // bias_gradient[row] = sum over inner of op(left)[row, inner]
};

struct MatmulProblem {
  void* output;
  const void* left;
  const void* right;
  const void* bias;  // [columns] of the output's dtype, or null
  int64_t batch, rows, columns, inner;
  bool transpose_left;   // left is stored [inner, rows]
  bool transpose_right;  // right is stored [columns, inner]
  bool accumulate;
  DType input_dtype, output_dtype;
  FusedWith fused = FusedWith::kNothing;
  void* auxiliary = nullptr;      // [rows, columns] of the output's dtype
  void* bias_gradient = nullptr;  // [rows] of the output's dtype
};

Status cublaslt_matmul(const MatmulProblem& problem);
// The same where the library has a deterministic algorithm for that, with what is fused or the bias;
// otherwise nothing is done.
Status cublaslt_matmul_if_offered(const MatmulProblem& problem, bool* is_offered);

}  // namespace mtl::cuda

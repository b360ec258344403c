// The only file that exposes cuBLASLt. The library is loaded at run time. There are one handle and one
// workspace, and algorithms are cached by shape.
#pragma once

#include "core/status.h"
#include "core/tensor_view.h"

namespace mtl::cuda {

// Opens the first candidate (one per line) that dlopen accepts. If it accepts none, fails with MTL_CUBLASLT,
// and the message lists the attempts.
Status load_cublaslt(const char* candidates, bool allow_tf32);
// Creates the handle. The device must already be open.
Status open_cublaslt();
const char* cublaslt_path();
uint64_t cublaslt_version();

// output[batch, rows, columns] = op(left) @ op(right) + bias, plus the old output if `accumulate` is true;
// all are row-major. Matmuls sum in float32; float16 and bfloat16 are rounded once, at the end.
//
// Matmuls are deterministic. A problem's algorithm is the one that set_matmul_choices has set, or else the
// first in the library's order, which depends only on shape and alignment. Algorithms that add partial sums
// to the output in arbitrary order are never used.
enum class FusedWith {
  kNothing,        // nothing is fused, or only a bias
  kGelu,           // output = gelu(matmul + bias), tanh approximation; auxiliary = matmul + bias
  kGeluGradient,   // output = matmul * gelu'(auxiliary)
  kResidual,       // output = matmul + bias + addend
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
  const void* addend = nullptr;   // [rows, columns] of the output's dtype
  void* auxiliary = nullptr;      // [rows, columns] of the output's dtype
  void* bias_gradient = nullptr;  // [rows] of the output's dtype
};

Status cublaslt_matmul(const MatmulProblem& problem);
// Runs the matmul like cublaslt_matmul if the library has a deterministic algorithm with the requested fusion
// or bias. Otherwise, sets `is_offered` to false and does nothing.
Status cublaslt_matmul_if_offered(const MatmulProblem& problem, bool* is_offered);

// Sets the algorithms that matmuls use from now on. `lines` has the format of MatmulChoices::set. If
// `times_others` is true, every problem without a choice is timed when it first runs: its candidates run
// several times with its own operands, which overwrites the output with meaningless values, and the fastest
// candidate becomes the choice. Fails with MTL_MATMUL_CHOICES if `lines` has a different format. A matmul
// fails with the same code if cuBLASLt does not offer its chosen algorithm. Fails with MTL_CAPTURE while a
// graph is recorded.
Status set_matmul_choices(const char* lines, bool times_others);
// Returns all choices, in the format of MatmulChoices::set. The string is valid until the thread's next call.
const char* matmul_choices();

}  // namespace mtl::cuda

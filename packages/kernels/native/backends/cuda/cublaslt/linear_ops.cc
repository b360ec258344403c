// The matmuls of a linear layer, fused by cuBLASLt's epilogues. If the epilogues do not support a case (exact
// GELU, some shapes), it uses a matmul and this library's own kernels. GELU in float32 does the same, because
// the accuracy of cuBLASLt's tanh is not documented and has not been compared with float32's error bounds.
#include "ops/linear.h"

#include "backends/cuda/cublaslt/cublaslt.h"
#include "backends/cuda/kernels/column_sums.h"
#include "backends/cuda/runtime/kernel_scratch.h"
#include "backends/cuda/runtime/op_table.h"
#include "backends/cuda/scratch/linear.h"

namespace mtl::cuda {
namespace {

// Describes output [rows, columns] = left @ right, which is common to all fused matmuls in this file.
MatmulProblem matmul_of(const OpCall& call, int output, int left, int right) {
  MatmulProblem problem = {};
  problem.output = call.tensor(output).data;
  problem.left = call.tensor(left).data;
  problem.right = call.tensor(right).data;
  problem.batch = 1;
  problem.input_dtype = call.tensor(left).dtype;
  problem.output_dtype = call.tensor(output).dtype;
  return problem;
}

bool is_empty(const MatmulProblem& problem) { return problem.rows == 0 || problem.columns == 0 || problem.inner == 0; }

// Returns true if cuBLASLt's GELU or its derivative may be used.
bool may_fuse_gelu(const OpCall& call, const MatmulProblem& problem) {
  using Op = LinearGeluForward;
  const bool is_exact = call.flag(Op::kErf);
  return !is_exact && problem.output_dtype != DType::kFloat32 && !is_empty(problem);
}

// Describes input weight^T + bias.
template <typename Op>
MatmulProblem problem_of_layer(const OpCall& call) {
  MatmulProblem problem = matmul_of(call, Op::kOutput, Op::kInput, Op::kWeight);
  problem.rows = call.tensor(Op::kInput).rows();
  problem.columns = call.tensor(Op::kWeight).dim(0);
  problem.inner = call.tensor(Op::kWeight).dim(1);
  problem.transpose_right = true;
  problem.bias = call.tensor(Op::kBias).data;
  return problem;
}

Status forward(const OpCall& call) {
  using Op = LinearGeluForward;
  MatmulProblem problem = problem_of_layer<Op>(call);
  problem.fused = FusedWith::kGelu;
  problem.auxiliary = call.tensor(Op::kPreactivation).data;
  bool is_offered = false;
  if (may_fuse_gelu(call, problem)) MTL_RETURN_IF_ERROR(cublaslt_matmul_if_offered(problem, &is_offered));
  if (is_offered) return ok_status();
  return linear_gelu_forward_in_parts(call, find_kernel);
}

Status backward(const OpCall& call) {
  using Op = LinearGeluBackward;
  MatmulProblem problem = matmul_of(call, Op::kInputGradient, Op::kOutputGradient, Op::kWeight);
  problem.rows = call.tensor(Op::kOutputGradient).rows();
  problem.columns = call.tensor(Op::kWeight).dim(1);
  problem.inner = call.tensor(Op::kWeight).dim(0);
  problem.fused = FusedWith::kGeluGradient;
  problem.auxiliary = call.tensor(Op::kPreactivation).data;
  bool is_offered = false;
  if (may_fuse_gelu(call, problem)) MTL_RETURN_IF_ERROR(cublaslt_matmul_if_offered(problem, &is_offered));
  if (is_offered) return ok_status();
  return linear_gelu_backward_in_parts(call, find_kernel);
}

Status residual_forward(const OpCall& call) {
  using Op = LinearResidualForward;
  MatmulProblem problem = problem_of_layer<Op>(call);
  problem.fused = FusedWith::kResidual;
  problem.addend = call.tensor(Op::kResidual).data;
  bool is_offered = false;
  if (!is_empty(problem)) MTL_RETURN_IF_ERROR(cublaslt_matmul_if_offered(problem, &is_offered));
  if (is_offered) return ok_status();
  return linear_residual_forward_in_parts(call, find_kernel);
}

// Runs the matmul fused with the bias gradient, if the library offers this.
Status fused_weight_gradient(const OpCall& call, bool* is_offered) {
  using Op = LinearWeightGradient;
  MatmulProblem problem = matmul_of(call, Op::kWeightGradient, Op::kOutputGradient, Op::kInput);
  problem.rows = call.tensor(Op::kOutputGradient).dim(-1);
  problem.columns = call.tensor(Op::kInput).dim(-1);
  problem.inner = call.tensor(Op::kInput).rows();
  problem.transpose_left = true;
  problem.accumulate = true;
  problem.fused = FusedWith::kBiasGradient;
  KernelScratch scratch;
  MTL_RETURN_IF_ERROR(scratch.take(call));
  float* const sums = scratch.as<float>(0);
  problem.bias_gradient = sums;
  MTL_RETURN_IF_ERROR(cublaslt_matmul_if_offered(problem, is_offered));
  if (!*is_offered) return ok_status();
  return add_lines(call, {call.data<float>(Op::kBiasGradient), nullptr, problem.rows, true}, sums, 1);
}

Status weight_gradient(const OpCall& call) {
  bool is_offered = false;
  if (fuses_bias_gradient(call, gpu_properties())) MTL_RETURN_IF_ERROR(fused_weight_gradient(call, &is_offered));
  return is_offered ? ok_status() : linear_weight_gradient_in_parts(call, find_kernel);
}

MTL_REGISTER_CUDA("linear_gelu_forward", forward);
MTL_REGISTER_CUDA("linear_gelu_backward", backward);
MTL_REGISTER_CUDA("linear_residual_forward", residual_forward);
MTL_REGISTER_CUDA("linear_weight_gradient", weight_gradient);

}  // namespace
}  // namespace mtl::cuda

#include "backends/cpu/matmul_problem.h"

#include "ops/matmul.h"

namespace mtl {

MatmulProblem matmul_problem_of(const OpCall& call) {
  const MatmulSizes sizes = matmul_sizes(call);
  const TensorView &output = call.tensor(Matmul::kOutput), &left = call.tensor(Matmul::kLeft),
                   &bias = call.tensor(Matmul::kBias);
  MatmulProblem problem{};
  problem.output = output.data;
  problem.left = left.data;
  problem.right = call.tensor(Matmul::kRight).data;
  problem.bias = bias.data;
  problem.batch = sizes.batch;
  problem.rows = sizes.rows;
  problem.columns = sizes.columns;
  problem.inner = sizes.inner;
  problem.transpose_left = call.flag(Matmul::kTransposeLeft);
  problem.transpose_right = call.flag(Matmul::kTransposeRight);
  problem.accumulate = call.flag(Matmul::kAccumulate);
  problem.input_dtype = left.dtype;
  problem.output_dtype = output.dtype;
  problem.bias_dtype = bias.dtype;
  return problem.contiguous();
}

}  // namespace mtl

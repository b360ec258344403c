#include "ops/matmul.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/widened_matmul.h"
#include "core/op_registry.h"

namespace mtl {
namespace {

MatmulProblem problem_of(const OpCall& call) {
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

Status refuse_float64(const OpCall& call) {
  if (call.tensor(Matmul::kLeft).dtype != DType::kFloat64) return ok_status();
  return error_status("MTL_DTYPE", "matmul: float64 is computed on the reference device only");
}

// oneDNN rejects some empty operands; the output is then the bias alone.
bool is_empty(const OpCall& call) {
  return call.tensor(Matmul::kOutput).size() == 0 || call.tensor(Matmul::kLeft).size() == 0;
}

Status matmul(const OpCall& call) {
  MTL_RETURN_IF_ERROR(refuse_float64(call));
  if (is_empty(call)) return find_op("matmul")->reference(call);
  const MatmulProblem problem = problem_of(call);
  return onednn_multiplies(problem.input_dtype) ? onednn_matmul(problem) : widened_matmul(problem);
}

Status matmul_scratch(const OpCall& call, ScratchBlocks* blocks) {
  MTL_RETURN_IF_ERROR(refuse_float64(call));
  if (is_empty(call)) return ok_status();
  const MatmulProblem problem = problem_of(call);
  if (!onednn_multiplies(problem.input_dtype)) return widened_scratch(problem, blocks);
  MatmulScratch scratch;
  MTL_RETURN_IF_ERROR(onednn_scratch(problem, &scratch));
  blocks->add(static_cast<int64_t>(scratch.scratchpad));
  blocks->add(static_cast<int64_t>(scratch.packed_right));
  return ok_status();
}

// oneDNN chooses its own instruction set, so this one kernel serves all levels.
const CpuKernelRegistration registration("matmul", InstructionSet::kPlain, matmul, matmul_scratch);

}  // namespace
}  // namespace mtl

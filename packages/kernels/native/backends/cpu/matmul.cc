#include "ops/matmul.h"

#include "backends/cpu/onednn.h"
#include "core/op_registry.h"

namespace mtl {
namespace {

Status matmul(const OpCall& call) {
  const MatmulSizes sizes = matmul_sizes(call);
  const TensorView& bias = call.tensor(kMatmulBias);
  const TensorView& left = call.tensor(kMatmulLeft);
  if (left.dtype == DType::kFloat64) {
    return error_status("MTL_DTYPE", "matmul: float64 is computed on the reference device only");
  }
  return onednn_matrix_product({call.tensor(kMatmulOutput).data, left.data, call.tensor(kMatmulRight).data, bias.data,
                                sizes.batch, sizes.rows, sizes.columns, sizes.inner, call.flag(kMatmulTransposeLeft),
                                call.flag(kMatmulTransposeRight), call.flag(kMatmulAccumulate), left.dtype,
                                call.tensor(kMatmulOutput).dtype, bias.dtype});
}

// oneDNN chooses its own instruction set, so this one kernel serves all levels.
const CpuKernelRegistration registration("matmul", InstructionSet::kPlain, matmul);

}  // namespace
}  // namespace mtl

#include "ops/matmul.h"

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

Status matmul(const OpCall& call) {
  const MatmulSizes sizes = matmul_sizes(call);
  const TensorView& output = call.tensor(kMatmulOutput);
  const TensorView& left = call.tensor(kMatmulLeft);
  const TensorView& right = call.tensor(kMatmulRight);
  for (int64_t batch = 0; batch < sizes.batch; ++batch) {
    for (int64_t row = 0; row < sizes.rows; ++row) {
      for (int64_t column = 0; column < sizes.columns; ++column) {
        double sum = call.has(kMatmulBias) ? get(call.tensor(kMatmulBias), column) : 0.0;
        for (int64_t k = 0; k < sizes.inner; ++k) {
          const int64_t l = call.flag(kMatmulTransposeLeft) ? k * sizes.rows + row : row * sizes.inner + k;
          const int64_t r = call.flag(kMatmulTransposeRight) ? column * sizes.inner + k : k * sizes.columns + column;
          sum += get(left, batch * sizes.rows * sizes.inner + l) * get(right, batch * sizes.inner * sizes.columns + r);
        }
        const int64_t index = (batch * sizes.rows + row) * sizes.columns + column;
        set(output, index, call.flag(kMatmulAccumulate) ? get(output, index) + sum : sum);
      }
    }
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("matmul", matmul);

}  // namespace
}  // namespace mtl::reference

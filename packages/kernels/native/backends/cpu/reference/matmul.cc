#include "ops/matmul.h"

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

Status matmul(const OpCall& call) {
  const MatmulSizes sizes = matmul_sizes(call);
  const TensorView& output = call.tensor(Matmul::kOutput);
  const TensorView& left = call.tensor(Matmul::kLeft);
  const TensorView& right = call.tensor(Matmul::kRight);
  for (int64_t batch = 0; batch < sizes.batch; ++batch) {
    for (int64_t row = 0; row < sizes.rows; ++row) {
      for (int64_t column = 0; column < sizes.columns; ++column) {
        double sum = call.has(Matmul::kBias) ? get(call.tensor(Matmul::kBias), column) : 0.0;
        for (int64_t k = 0; k < sizes.inner; ++k) {
          const int64_t l = call.flag(Matmul::kTransposeLeft) ? k * sizes.rows + row : row * sizes.inner + k;
          const int64_t r = call.flag(Matmul::kTransposeRight) ? column * sizes.inner + k : k * sizes.columns + column;
          sum += get(left, batch * sizes.rows * sizes.inner + l) * get(right, batch * sizes.inner * sizes.columns + r);
        }
        const int64_t index = (batch * sizes.rows + row) * sizes.columns + column;
        set(output, index, call.flag(Matmul::kAccumulate) ? get(output, index) + sum : sum);
      }
    }
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("matmul", matmul);

}  // namespace
}  // namespace mtl::reference

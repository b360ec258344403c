#include "ops/row_products.h"

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

Status row_products(const OpCall& call) {
  using Op = RowProducts;
  const TensorView &left = call.tensor(Op::kLeft), &right = call.tensor(Op::kRight);
  const int64_t hidden = left.dim(-1);
  for (int64_t row = 0; row < left.rows(); ++row) {
    double sum = 0.0;
    for (int64_t h = 0; h < hidden; ++h) {
      const double weight = call.has(Op::kWeight) ? get(call.tensor(Op::kWeight), h) : 1.0;
      sum += get(left, row * hidden + h) * get(right, row * hidden + h) * weight;
    }
    set(call.tensor(Op::kOutput), row, sum);
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("row_products", row_products);

}  // namespace
}  // namespace mtl::reference

#include "ops/row_products.h"

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

template <typename T>
MTL_INLINE float products(const T* left, const T* right, const T* weight, int64_t hidden) {
  // two running sums are used, because each addition to a sum must wait for the previous one
  VFloat sums[2] = {};
  const auto add = [&](int64_t h, int64_t left_over, VFloat* sum) {
    VFloat product = load_up_to(left + h, left_over) * load_up_to(right + h, left_over);
    if (weight != nullptr) product *= load_up_to(weight + h, left_over);
    *sum += product;
  };
  int64_t h = 0;
  for (; h + 2 * kLanes <= hidden; h += 2 * kLanes) {
    add(h, kLanes, &sums[0]);
    add(h + kLanes, kLanes, &sums[1]);
  }
  for (; h < hidden; h += kLanes) add(h, hidden - h, &sums[0]);
  return sum(sums[0] + sums[1]);
}

Status row_products(const OpCall& call) {
  using Op = RowProducts;
  return for_floating(call.tensor(Op::kLeft).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    const int64_t rows = call.tensor(Op::kLeft).rows(), hidden = call.tensor(Op::kLeft).dim(-1);
    const T *const left = call.data<T>(Op::kLeft), *const right = call.data<T>(Op::kRight),
                   *const weight = call.data<T>(Op::kWeight);
    float* const output = call.data<float>(Op::kOutput);
    for_each(rows, rows * hidden, [&](int64_t row) {
      output[row] = products(left + row * hidden, right + row * hidden, weight, hidden);
    });
    return ok_status();
  });
}

MTL_REGISTER_CPU("row_products", row_products);

}  // namespace
}  // namespace mtl

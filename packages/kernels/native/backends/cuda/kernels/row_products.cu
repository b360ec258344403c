// row_products: one block computes one row.
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/dispatch.h"
#include "ops/row_products.h"

namespace mtl::cuda {
namespace {

template <typename T, int N>
__global__ void row_products_kernel(float* output, const T* left, const T* right, const T* weight, int64_t hidden) {
  MTL_SHARED(float, shared, [kMaxWarps]);
  const int64_t start = int64_t{blockIdx.x} * hidden;
  float products = 0.0f;
  for (int64_t h = int64_t{threadIdx.x} * N; h < hidden; h += int64_t{blockDim.x} * N) {
    float a[N], b[N], factors[N];
    load(a, left + start + h);
    load(b, right + start + h);
    if (weight != nullptr) load(factors, weight + h);
#pragma unroll
    for (int i = 0; i < N; ++i) products += weight == nullptr ? a[i] * b[i] : a[i] * b[i] * factors[i];
  }
  const float total = block_reduce<Sum>(products, shared);
  if (threadIdx.x == 0) output[blockIdx.x] = total;
}

Status row_products(const OpCall& call) {
  using Op = RowProducts;
  return for_floating(call, call.tensor(Op::kLeft).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t rows = call.tensor(Op::kLeft).rows(), hidden = call.tensor(Op::kLeft).dim(-1);
    const T *const left = call.data<T>(Op::kLeft), *const right = call.data<T>(Op::kRight),
                   *const weight = call.data<T>(Op::kWeight);
    return for_width<T>(is_packed<T>(hidden, {left, right, weight}), [&](auto elements) {
      constexpr int N = decltype(elements)::value;
      MTL_RUN_KERNEL(call, (row_products_kernel<T, N>), grid_of(rows, row_threads(ceiling(hidden, N))),
                     call.data<float>(Op::kOutput), left, right, weight, hidden);
      return ok_status();
    });
  });
}

MTL_REGISTER_CUDA("row_products", row_products);

}  // namespace
}  // namespace mtl::cuda

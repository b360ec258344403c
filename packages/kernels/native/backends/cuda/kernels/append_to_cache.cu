#include "ops/append_to_cache.h"

#include "backends/cuda/kernels/dispatch.h"

namespace mtl::cuda {
namespace {

using Op = AppendToCache;

// The new rows [Q, B, G, size], and their destination, the cache [B, G, M, size]. Strides are in elements.
template <typename T>
struct Rows {
  const T* from;
  int64_t position, sample, group;
  T* cache;
  int64_t size;
};

struct Sizes {
  int64_t positions, groups, capacity, first;  // Q, G, M, the first new position
};

template <typename T>
__device__ void append_row(const Rows<T>& rows, const Sizes& sizes) {
  const int64_t query = blockIdx.x % sizes.positions, head = blockIdx.x / sizes.positions;
  const int64_t batch = head / sizes.groups, group = head % sizes.groups;
  const T* const from = rows.from + query * rows.position + batch * rows.sample + group * rows.group;
  T* const to = rows.cache + (head * sizes.capacity + sizes.first + query) * rows.size;
  for (int64_t d = threadIdx.x; d < rows.size; d += blockDim.x) to[d] = from[d];
}

// There is one block for each new position of each group, over all samples. All blocks are in the grid's x
// dimension, because the other dimensions are limited to 65,535.
template <typename T>
__global__ void append_kernel(Rows<T> keys, Rows<T> values, Sizes sizes) {
  append_row(keys, sizes);
  append_row(values, sizes);
}

template <typename T>
Status append(const OpCall& call) {
  const TensorView& key = call.tensor(Op::kKey);
  const auto rows_of = [&](int rows, int cache) -> Rows<T> {
    const TensorView& from = call.tensor(rows);
    return {static_cast<const T*>(from.data), from.stride(0), from.stride(1), from.stride(2), call.data<T>(cache),
            from.dim(3)};
  };
  const Sizes sizes = {key.dim(0), key.dim(2), call.tensor(Op::kKeyCache).dim(2), call.integer(Op::kPosition)};
  MTL_RUN_KERNEL(call, (append_kernel<T>), grid_of(key.dim(0) * key.dim(1) * sizes.groups, row_threads(key.dim(3))),
                 rows_of(Op::kKey, Op::kKeyCache), rows_of(Op::kValue, Op::kValueCache), sizes);
  return ok_status();
}

Status run(const OpCall& call) {
  return for_floating(call, call.tensor(Op::kKey).dtype,
                      [&](auto* type) { return append<std::remove_pointer_t<decltype(type)>>(call); });
}

MTL_REGISTER_CUDA("append_to_cache", run);

}  // namespace
}  // namespace mtl::cuda

// permute_rows and combine_rows: one block per row of the output. Its threads loop over N neighbouring
// columns.
#include "backends/cuda/index_check.cuh"
#include "backends/cuda/kernels/dispatch.h"
#include "ops/permute_rows.h"

namespace mtl::cuda {
namespace {

template <typename T, int N>
__global__ void permute_kernel(T* output, const T* input, const int32_t* sources, int64_t columns, int64_t top_k,
                               IndexCheck check) {
  const int64_t row = blockIdx.x;
  const int32_t source = sources[row];
  const bool is_valid = check.is_valid(source);
  if (!is_valid && threadIdx.x == 0) check.refuse(row, source);
  for (int64_t column = int64_t{threadIdx.x} * N; column < columns; column += int64_t{blockDim.x} * N) {
    float values[N] = {};
    if (is_valid && source >= 0) load(values, input + source / top_k * columns + column);
    if (!is_valid) {
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] = NAN;
    }
    store(output + row * columns + column, values);
  }
}

template <typename T, int N>
__global__ void combine_kernel(T* output, const T* rows, const int32_t* positions, int64_t columns, int64_t slots,
                               IndexCheck check) {
  const int64_t row = blockIdx.x;
  const int32_t* const of_row = positions + row * slots;
  for (int64_t slot = threadIdx.x; slot < slots; slot += blockDim.x) {
    if (!check.is_valid(of_row[slot])) check.refuse(row * slots + slot, of_row[slot]);
  }
  for (int64_t column = int64_t{threadIdx.x} * N; column < columns; column += int64_t{blockDim.x} * N) {
    float sums[N] = {};
    for (int64_t slot = 0; slot < slots; ++slot) {
      const int64_t position = of_row[slot];
      float values[N];
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] = check.is_valid(position) ? 0.0f : NAN;
      if (check.is_valid(position) && position >= 0) load(values, rows + position * columns + column);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += values[i];
    }
    store(output + row * columns + column, sums);
  }
}

Status permute_rows(const OpCall& call) {
  using Op = PermuteRows;
  const TensorView& output = call.tensor(Op::kOutput);
  return for_floating(call, output.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t columns = output.dim(-1), top_k = call.integer(Op::kTopK);
    T* const to = call.data<T>(Op::kOutput);
    const T* const from = call.data<T>(Op::kInput);
    const IndexCheck check = {index_report(), call.op, "sources", call.tensor(Op::kInput).rows() * top_k, -1};
    return for_width<T>(is_packed<T>(columns, {to, from}), [&](auto width) {
      constexpr int N = decltype(width)::value;
      MTL_RUN_KERNEL(call, (permute_kernel<T, N>), grid_of(output.rows(), row_threads(ceiling(columns, N))), to, from,
                     call.data<int32_t>(Op::kSources), columns, top_k, check);
      return ok_status();
    });
  });
}

Status combine_rows(const OpCall& call) {
  using Op = CombineRows;
  const TensorView& output = call.tensor(Op::kOutput);
  return for_floating(call, output.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t columns = output.dim(-1), slots = call.tensor(Op::kPositions).dim(1);
    T* const to = call.data<T>(Op::kOutput);
    const T* const from = call.data<T>(Op::kRows);
    const IndexCheck check = {index_report(), call.op, "positions", call.tensor(Op::kRows).rows(), -1};
    return for_width<T>(is_packed<T>(columns, {to, from}), [&](auto width) {
      constexpr int N = decltype(width)::value;
      MTL_RUN_KERNEL(call, (combine_kernel<T, N>), grid_of(output.rows(), row_threads(ceiling(columns, N))), to, from,
                     call.data<int32_t>(Op::kPositions), columns, slots, check);
      return ok_status();
    });
  });
}

MTL_REGISTER_CUDA("permute_rows", permute_rows);
MTL_REGISTER_CUDA("combine_rows", combine_rows);

}  // namespace
}  // namespace mtl::cuda

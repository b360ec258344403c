// cast, scale and add: one thread per N neighbouring elements of flat buffers. The last thread takes the
// remainder. For strided views N is 1 or divides the length of rows. Kernels read the layouts of views in
// place (`__grid_constant__`). Otherwise every thread would copy them to its stack to index them.
#include "backends/cuda/kernels/dispatch.h"
#include "core/row_layout.h"
#include "ops/elementwise.h"

namespace mtl::cuda {
namespace {

template <typename To, typename From, int N>
__global__ void cast_kernel(To* output, const From* input, int64_t size) {
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first + N <= size) {
    float values[N];
    load(values, input + first);
    store(output + first, values);
  } else {
    for (int64_t i = first; i < size; ++i) set(output + i, to_float(input[i]));
  }
}

template <typename To, typename From, int N>
__global__ void cast_rows_kernel(To* output, const __grid_constant__ RowLayout outputs, const From* input,
                                 const __grid_constant__ RowLayout inputs, int64_t columns, int64_t size) {
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first >= size) return;
  const int64_t row = first / columns, column = first % columns;
  float values[N];
  load(values, input + row_start(inputs, row) + column);
  store(output + row_start(outputs, row) + column, values);
}

// Scales one element per thread. This is fast enough, because only adapters are scaled, which are small.
template <typename To, typename From>
__global__ void scale_rows_kernel(To* output, const __grid_constant__ RowLayout outputs, const From* input,
                                  const __grid_constant__ RowLayout inputs, int64_t columns, int64_t size, float factor,
                                  bool accumulates) {
  const int64_t index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= size) return;
  const int64_t row = index / columns, column = index % columns;
  To* const target = output + row_start(outputs, row) + column;
  const float value = factor * to_float(input[row_start(inputs, row) + column]);
  set(target, accumulates ? to_float(*target) + value : value);
}

template <typename T, int N>
__global__ void add_kernel(T* output, const T* left, const T* right, int64_t size) {
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first + N <= size) {
    float a[N], b[N];
    load(a, left + first);
    load(b, right + first);
#pragma unroll
    for (int i = 0; i < N; ++i) a[i] += b[i];
    store(output + first, a);
  } else {
    for (int64_t i = first; i < size; ++i) set(output + i, to_float(left[i]) + to_float(right[i]));
  }
}

template <typename To, typename From>
Status cast_of(const OpCall& call) {
  using Op = Cast;
  const int64_t size = call.tensor(Op::kOutput).size();
  To* const output = call.data<To>(Op::kOutput);
  const From* const input = call.data<From>(Op::kInput);
  const TensorView &to = call.tensor(Op::kOutput), &from = call.tensor(Op::kInput);
  const bool is_strided = to.is_strided || from.is_strided;
  const RowLayout outputs = row_layout_of(to), inputs = row_layout_of(from);
  const auto run = [&](auto width) {
    constexpr int N = decltype(width)::value;
    if (is_strided) {
      MTL_RUN_KERNEL(call, (cast_rows_kernel<To, From, N>), grid_of(ceiling(size, int64_t{N} * kThreads), kThreads),
                     output, outputs, input, inputs, to.dim(-1), size);
      return ok_status();
    }
    MTL_RUN_KERNEL(call, (cast_kernel<To, From, N>), grid_of(ceiling(size, int64_t{N} * kThreads), kThreads), output,
                   input, size);
    return ok_status();
  };
  using Narrower = std::conditional_t<(sizeof(To) < sizeof(From)), To, From>;
  const bool is_whole = !is_strided || (is_packed_row<Narrower>(to.dim(-1), outputs) && is_packed_row<Narrower>(to.dim(-1), inputs));
  return for_width<Narrower>(is_whole && is_aligned(output) && is_aligned(input), run);
}

Status cast(const OpCall& call) {
  using Op = Cast;
  return for_floating(call, call.tensor(Op::kOutput).dtype, [&](auto* to) {
    return for_floating(call, call.tensor(Op::kInput).dtype, [&](auto* from) {
      return cast_of<std::remove_pointer_t<decltype(to)>, std::remove_pointer_t<decltype(from)>>(call);
    });
  });
}

Status scale(const OpCall& call) {
  using Op = Scale;
  const TensorView &to = call.tensor(Op::kOutput), &from = call.tensor(Op::kInput);
  return for_floating(call, to.dtype, [&](auto* to_type) {
    return for_floating(call, from.dtype, [&](auto* from_type) {
      using To = std::remove_pointer_t<decltype(to_type)>;
      using From = std::remove_pointer_t<decltype(from_type)>;
      MTL_RUN_KERNEL(call, (scale_rows_kernel<To, From>), grid_of(ceiling(to.size(), kThreads), kThreads),
                     call.data<To>(Op::kOutput), row_layout_of(to), call.data<From>(Op::kInput), row_layout_of(from),
                     to.dim(-1), to.size(), static_cast<float>(call.attribute(Op::kFactor)),
                     call.flag(Op::kAccumulate));
      return ok_status();
    });
  });
}

Status add(const OpCall& call) {
  using Op = Add;
  return for_floating(call, call.tensor(Op::kOutput).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const output = call.data<T>(Op::kOutput);
    const T *const left = call.data<T>(Op::kLeft), *const right = call.data<T>(Op::kRight);
    const int64_t size = call.tensor(Op::kOutput).size();
    return for_width<T>(is_aligned(output) && is_aligned(left) && is_aligned(right), [&](auto width) {
      constexpr int N = decltype(width)::value;
      MTL_RUN_KERNEL(call, (add_kernel<T, N>), grid_of(ceiling(size, int64_t{N} * kThreads), kThreads), output, left,
                     right, size);
      return ok_status();
    });
  });
}

MTL_REGISTER_CUDA("cast", cast);
MTL_REGISTER_CUDA("scale", scale);
MTL_REGISTER_CUDA("add", add);

}  // namespace
}  // namespace mtl::cuda

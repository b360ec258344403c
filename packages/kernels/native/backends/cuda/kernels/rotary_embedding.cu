// rotary_embedding: one block per position. Its threads loop over the heads, N pairs or N copied elements at
// a time.
#include "backends/cuda/index_check.cuh"
#include "backends/cuda/kernels/dispatch.h"
#include "ops/rotary_embedding.h"

namespace mtl::cuda {
namespace {

template <typename T>
struct Rotary {
  T* output;
  const T* input;
  RowLayout outputs, inputs;
  const int32_t* positions;
  const float* table;
  int32_t heads, half, size;  // heads per position, rotated pairs and elements of a head
  float sign;                 // direction of the angles
};

template <bool kInterleaved, typename T, int N>
__device__ __forceinline__ void rotate_pairs(T* to, const T* from, const float* cosines, int half, float sign) {
  float a[N], b[N], cosine[N], sine[N];
  const int64_t second = kInterleaved ? N : half;
  load(a, from);
  load(b, from + second);
  load(cosine, cosines);
  load(sine, cosines + half);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    // pair i is the same element of both vectors, or two neighbours in one vector
    float& x = !kInterleaved ? a[i] : 2 * i < N ? a[2 * i] : b[2 * i - N];
    float& y = !kInterleaved ? b[i] : 2 * i + 1 < N ? a[2 * i + 1] : b[2 * i + 1 - N];
    const float s = sine[i] * sign, rotated = x * cosine[i] - y * s;
    y = x * s + y * cosine[i];
    x = rotated;
  }
  store(to, a);
  store(to + second, b);
}

template <typename T, int N>
__device__ __forceinline__ void fill_with_nan(T* to) {
  float values[N];
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = NAN;
  store(to, values);
}

template <bool kInterleaved, typename T, int N>
__global__ void rotary_kernel(Rotary<T> r, IndexCheck check) {
  const int32_t position = r.positions[blockIdx.x];
  const bool is_valid = check.is_valid(position);
  if (!is_valid && threadIdx.x == 0) check.refuse(blockIdx.x, position);
  const float* const cosines = r.table + int64_t{position} * 2 * r.half;
  const int of_pairs = r.half / N, of_rest = r.output == r.input ? 0 : (r.size - 2 * r.half) / N;
  const int per_head = of_pairs + of_rest;
  for (int item = static_cast<int>(threadIdx.x); item < r.heads * per_head; item += static_cast<int>(blockDim.x)) {
    const int head = item / per_head, part = item % per_head;
    const int64_t row = int64_t{blockIdx.x} * r.heads + head;
    const T* const from = r.input + row_start(r.inputs, row);
    T* const to = r.output + row_start(r.outputs, row);
    if (part >= of_pairs) {
      const int64_t at = 2 * int64_t{r.half} + (part - of_pairs) * N;
      float values[N];
      load(values, from + at);
      store(to + at, values);
      continue;
    }
    const int64_t pair = int64_t{part} * N, at = kInterleaved ? 2 * pair : pair;
    if (is_valid) {
      rotate_pairs<kInterleaved, T, N>(to + at, from + at, cosines + pair, r.half, r.sign);
    } else {
      fill_with_nan<T, N>(to + at);
      fill_with_nan<T, N>(to + at + (kInterleaved ? N : r.half));
    }
  }
}

template <typename T>
Status run_of(const OpCall& call) {
  using Op = RotaryEmbedding;
  const TensorView &input = call.tensor(Op::kInput), &output = call.tensor(Op::kOutput), &table = call.tensor(Op::kTable);
  const int64_t num_positions = call.tensor(Op::kPositions).size();
  if (input.rows() == 0) return ok_status();
  const Rotary<T> r = {call.data<T>(Op::kOutput), call.data<T>(Op::kInput), row_layout_of(output), row_layout_of(input),
                       call.data<int32_t>(Op::kPositions), call.data<float>(Op::kTable),
                       static_cast<int32_t>(input.rows() / num_positions), static_cast<int32_t>(table.dim(1) / 2),
                       static_cast<int32_t>(input.dim(-1)), call.flag(Op::kInverse) ? -1.0f : 1.0f};
  const bool packed = is_packed<T>(r.half, {r.output, r.input, r.table}) && is_packed_row<T>(r.size, r.inputs) &&
                      is_packed_row<T>(r.size, r.outputs);
  return for_width<T>(packed, [&](auto width) {
    constexpr int N = decltype(width)::value;
    const Launch how = grid_of(num_positions, row_threads(ceiling(int64_t{r.heads} * r.size, 2 * N)));
    const IndexCheck check = {index_report(), call.op, "positions", table.dim(0)};
    if (call.flag(Op::kInterleaved)) {
      MTL_RUN_KERNEL(call, (rotary_kernel<true, T, N>), how, r, check);
    } else {
      MTL_RUN_KERNEL(call, (rotary_kernel<false, T, N>), how, r, check);
    }
    return ok_status();
  });
}

Status run(const OpCall& call) {
  using Op = RotaryEmbedding;
  return for_floating(call, call.tensor(Op::kInput).dtype,
                      [&](auto* type) { return run_of<std::remove_pointer_t<decltype(type)>>(call); });
}

MTL_REGISTER_CUDA("rotary_embedding", run);

}  // namespace
}  // namespace mtl::cuda

// rms_norm_forward and rms_norm_backward.
//
// Rows that fill whole 16-byte accesses, at most one access per thread, are read once and stay in registers.
// A block has blockDim.x threads per row and processes blockDim.y rows at a time: many rows for the heads of
// query and key norm, one row for hidden states. The backward pass has few blocks: each takes every
// gridDim.x-th group of rows and also keeps the sums for its weight gradient in registers, so that one pass
// over memory gives both gradients. Other rows are processed element by element and read more than once.
#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/column_sums.h"
#include "backends/cuda/kernels/dispatch.h"
#include "backends/cuda/scratch/rms_norm.h"
#include "ops/rms_norm.h"

namespace mtl::cuda {
namespace {

// Returns the block shape for rows of `columns`. The caller sets the grid.
template <typename T>
Launch blocks_of_rows(int64_t columns) {
  const RowBlock block = block_of_rows(columns, kPack<T>);
  Launch launch = grid_of(1, block.x);
  launch.block.y = static_cast<unsigned>(block.y);
  return launch;
}

// Returns the sum over the threads of a row, the same in each thread.
__device__ __forceinline__ float row_sum(float value, float* shared) {
  if (blockDim.x > 32) return block_reduce<Sum>(value, shared);
  for (int distance = static_cast<int>(blockDim.x) / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  }
  return value;
}

template <typename T>
struct Forward {
  T* output;
  float* rstd;
  const T *input, *weight;
  RowLayout outputs, inputs;
  int64_t rows, columns;
  float epsilon;
  const float* squares;  // null: this kernel sums over these columns
  float width;
};

template <typename T>
__global__ void __launch_bounds__(kMaxRowThreads) forward_kernel(Forward<T> f) {
  constexpr int N = kPack<T>;
  MTL_SHARED(float, shared, [kMaxWarps]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y, column = int64_t{threadIdx.x} * N;
  const bool inside = row < f.rows && column < f.columns;
  float x[N] = {};
  if (inside) load(x, f.input + row_start(f.inputs, row) + column);
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < N; ++i) squares += x[i] * x[i];
  const float total = row_sum(squares, shared);
  const float mean_square = (inside && f.squares != nullptr ? f.squares[row] : total) / f.width;
  const float rstd = 1.0f / sqrtf(mean_square + f.epsilon);
  if (!inside) return;
  if (threadIdx.x == 0) f.rstd[row] = rstd;
  float weight[N];
  load(weight, f.weight + column);
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] *= rstd * weight[i];
  store(f.output + row_start(f.outputs, row) + column, x);
}

template <typename T>
__global__ void any_forward_kernel(Forward<T> f) {
  MTL_SHARED(float, shared, [kMaxWarps]);
  const T* const from = f.input + row_start(f.inputs, blockIdx.x);
  T* const to = f.output + row_start(f.outputs, blockIdx.x);
  float squares = 0.0f;
  for (int64_t h = threadIdx.x; h < f.columns; h += blockDim.x) squares += to_float(from[h]) * to_float(from[h]);
  const float total = block_reduce<Sum>(squares, shared);
  const float mean_square = (f.squares != nullptr ? f.squares[blockIdx.x] : total) / f.width;
  const float rstd = 1.0f / sqrtf(mean_square + f.epsilon);
  if (threadIdx.x == 0) f.rstd[blockIdx.x] = rstd;
  for (int64_t h = threadIdx.x; h < f.columns; h += blockDim.x) set(to + h, to_float(from[h]) * rstd * to_float(f.weight[h]));
}

template <typename T>
struct Backward {
  T* input_gradient;  // null: not requested
  const T *output_gradient, *input, *weight, *addend;
  const float* rstd;
  RowLayout input_gradients, output_gradients, inputs, addends;
  int64_t rows, columns;
  const float* products;  // null: this kernel sums over these columns
  float width;
};

// Adds the sums of the block's rows, in the order of the rows, and writes the totals to a line of `partial`.
template <int N>
__device__ __forceinline__ void write_line(float* partial, const float (&own)[N], int64_t column, int64_t columns) {
  MTL_SHARED(float, sums, [kThreads * N]);
  float* const line = partial + int64_t{blockIdx.x} * columns;
  const bool inside = column < columns;
  if (blockDim.y == 1) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (inside) line[column + i] = own[i];
    }
    return;
  }
  const int width = static_cast<int>(blockDim.x) * N;
#pragma unroll
  for (int i = 0; i < N; ++i) sums[static_cast<int>(threadIdx.y) * width + static_cast<int>(column) + i] = own[i];
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  for (int h = thread; h < columns; h += static_cast<int>(blockDim.x * blockDim.y)) {
    float total = 0.0f;
    for (int y = 0; y < static_cast<int>(blockDim.y); ++y) total += sums[y * width + h];
    line[h] = total;
  }
}

// Computes dx = rstd * (g - x_hat * mean(g * x_hat)) + addend, with g = dy * weight. A line of `partial`
// receives the block's sums of dy * x_hat.
template <typename T, bool kInput, bool kWeight>
__global__ void __launch_bounds__(kMaxRowThreads) backward_kernel(Backward<T> b, float* partial) {
  constexpr int N = kPack<T>;
  MTL_SHARED(float, shared, [kMaxWarps]);
  const int64_t column = int64_t{threadIdx.x} * N;
  float weight[N] = {}, weight_sums[N] = {};
  if (kInput && column < b.columns) load(weight, b.weight + column);
  for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < b.rows; first += int64_t{gridDim.x} * blockDim.y) {
    const int64_t row = first + threadIdx.y;
    const bool inside = row < b.rows && column < b.columns;
    const float rstd = inside ? b.rstd[row] : 0.0f;
    float dy[N] = {}, normalized[N] = {};
    if (inside) {
      load(dy, b.output_gradient + row_start(b.output_gradients, row) + column);
      load(normalized, b.input + row_start(b.inputs, row) + column);
    }
    float products = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      normalized[i] *= rstd;
      products += dy[i] * weight[i] * normalized[i];
      if (kWeight) weight_sums[i] += dy[i] * normalized[i];
    }
    if (!kInput) continue;
    const float total = row_sum(products, shared);
    const float mean_product = (inside && b.products != nullptr ? b.products[row] * rstd : total) / b.width;
    if (!inside) continue;
    float dx[N] = {};
    if (b.addend != nullptr) load(dx, b.addend + row_start(b.addends, row) + column);
#pragma unroll
    for (int i = 0; i < N; ++i) dx[i] += (dy[i] * weight[i] - normalized[i] * mean_product) * rstd;
    store(b.input_gradient + row_start(b.input_gradients, row) + column, dx);
  }
  if (kWeight) write_line<N>(partial, weight_sums, column, b.columns);
}

template <typename T>
__global__ void any_input_gradient_kernel(Backward<T> b) {
  MTL_SHARED(float, shared, [kMaxWarps]);
  const int64_t row = blockIdx.x;
  const T *const dy = b.output_gradient + row_start(b.output_gradients, row),
                 *const x = b.input + row_start(b.inputs, row),
                 *const addend = b.addend == nullptr ? nullptr : b.addend + row_start(b.addends, row);
  T* const dx = b.input_gradient + row_start(b.input_gradients, row);
  const float rstd = b.rstd[row];
  float products = 0.0f;
  for (int64_t h = threadIdx.x; h < b.columns; h += blockDim.x) {
    products += to_float(dy[h]) * to_float(b.weight[h]) * (to_float(x[h]) * rstd);
  }
  const float total = block_reduce<Sum>(products, shared);
  const float mean_product = (b.products != nullptr ? b.products[row] * rstd : total) / b.width;
  for (int64_t h = threadIdx.x; h < b.columns; h += blockDim.x) {
    const float own = (to_float(dy[h]) * to_float(b.weight[h]) - to_float(x[h]) * rstd * mean_product) * rstd;
    set(dx + h, own + (addend == nullptr ? 0.0f : to_float(addend[h])));
  }
}

// Block (x, y) sums columns from x * blockDim.x on over rows y, y + gridDim.y, ...
template <typename T>
__global__ void any_weight_gradient_kernel(Backward<T> b, float* partial) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= b.columns) return;
  float total = 0.0f;
  for (int64_t row = blockIdx.y; row < b.rows; row += gridDim.y) {
    total += to_float(b.output_gradient[row_start(b.output_gradients, row) + column]) *
             (to_float(b.input[row_start(b.inputs, row) + column]) * b.rstd[row]);
  }
  partial[int64_t{blockIdx.y} * b.columns + column] = total;
}

template <typename T>
Status forward_of(const OpCall& call) {
  using Op = RmsNormForward;
  const TensorView &input = call.tensor(Op::kInput), &output = call.tensor(Op::kOutput);
  const Forward<T> f = {call.data<T>(Op::kOutput), call.data<float>(Op::kRstd), call.data<T>(Op::kInput),
                        call.data<T>(Op::kWeight), row_layout_of(output), row_layout_of(input), input.rows(),
                        input.dim(-1), static_cast<float>(call.attribute(Op::kEpsilon)),
                        call.data<float>(Op::kSquares), static_cast<float>(call.attribute(Op::kWidth))};
  const bool packed = is_packed<T>(f.columns, {f.output, f.input, f.weight}) && is_packed_row<T>(f.columns, f.outputs) &&
                      is_packed_row<T>(f.columns, f.inputs);
  if (packed && fits_registers(f.columns, kPack<T>)) {
    Launch how = blocks_of_rows<T>(f.columns);
    how.grid.x = static_cast<unsigned>(ceiling(f.rows, how.block.y));
    MTL_RUN_KERNEL(call, (forward_kernel<T>), how, f);
  } else {
    MTL_RUN_KERNEL(call, (any_forward_kernel<T>), grid_of(f.rows, row_threads(f.columns)), f);
  }
  return ok_status();
}

// Computes partial sums with `num_lines` blocks, then adds them. `run` launches the first pass.
template <typename Run>
Status with_weight_gradient(const OpCall& call, int64_t num_lines, const Run& run) {
  using Op = RmsNormBackward;
  KernelScratch scratch;
  MTL_RETURN_IF_ERROR(scratch.take(call));
  float* const partial = scratch.as<float>(0);
  MTL_RETURN_IF_ERROR(run(partial));
  const int64_t columns = call.tensor(Op::kInput).dim(-1);
  return add_lines(call, {call.data<float>(Op::kWeightGradient), nullptr, columns, true}, partial, num_lines);
}

template <typename T>
Status packed_backward(const OpCall& call, const RmsNormRows& by, const Backward<T>& b) {
  using Op = RmsNormBackward;
  Launch how = blocks_of_rows<T>(b.columns);
  if (!call.has(Op::kWeightGradient)) {
    how.grid.x = static_cast<unsigned>(ceiling(b.rows, how.block.y));
    MTL_RUN_KERNEL(call, (backward_kernel<T, true, false>), how, b, nullptr);
    return ok_status();
  }
  how.grid.x = static_cast<unsigned>(by.num_lines);
  return with_weight_gradient(call, by.num_lines, [&](float* partial) {
    if (b.input_gradient == nullptr) {
      MTL_RUN_KERNEL(call, (backward_kernel<T, false, true>), how, b, partial);
    } else {
      MTL_RUN_KERNEL(call, (backward_kernel<T, true, true>), how, b, partial);
    }
    return ok_status();
  });
}

template <typename T>
Status any_backward(const OpCall& call, const RmsNormRows& by, const Backward<T>& b) {
  using Op = RmsNormBackward;
  if (call.has(Op::kWeightGradient)) {
    // the sums come before the input gradient, which may overwrite the output gradient's memory
    MTL_RETURN_IF_ERROR(with_weight_gradient(call, by.num_lines, [&](float* partial) {
      MTL_RUN_KERNEL(call, (any_weight_gradient_kernel<T>), grid_of(ceiling(b.columns, 128), 128, by.num_lines), b,
                     partial);
      return ok_status();
    }));
  }
  if (b.input_gradient != nullptr) {
    MTL_RUN_KERNEL(call, (any_input_gradient_kernel<T>), grid_of(b.rows, row_threads(b.columns)), b);
  }
  return ok_status();
}

template <typename T>
Status backward_of(const OpCall& call) {
  using Op = RmsNormBackward;
  const auto layout = [&](int tensor) { return row_layout_of(call.tensor(tensor)); };
  const TensorView& input = call.tensor(Op::kInput);
  if (input.rows() == 0) return ok_status();
  const Backward<T> b = {call.data<T>(Op::kInputGradient), call.data<T>(Op::kOutputGradient), call.data<T>(Op::kInput),
                         call.data<T>(Op::kWeight), call.data<T>(Op::kAddend), call.data<float>(Op::kRstd),
                         layout(Op::kInputGradient), layout(Op::kOutputGradient), layout(Op::kInput), layout(Op::kAddend),
                         input.rows(), input.dim(-1), call.data<float>(Op::kProducts),
                         static_cast<float>(call.attribute(Op::kWidth))};
  const RmsNormRows by = rms_norm_backward_rows(call, gpu_properties());
  return by.is_packed ? packed_backward(call, by, b) : any_backward(call, by, b);
}

Status forward(const OpCall& call) {
  using Op = RmsNormForward;
  return for_floating(call, call.tensor(Op::kInput).dtype,
                      [&](auto* type) { return forward_of<std::remove_pointer_t<decltype(type)>>(call); });
}

Status backward(const OpCall& call) {
  using Op = RmsNormBackward;
  return for_floating(call, call.tensor(Op::kInput).dtype,
                      [&](auto* type) { return backward_of<std::remove_pointer_t<decltype(type)>>(call); });
}

MTL_REGISTER_CUDA("rms_norm_forward", forward);
MTL_REGISTER_CUDA("rms_norm_backward", backward);

}  // namespace
}  // namespace mtl::cuda

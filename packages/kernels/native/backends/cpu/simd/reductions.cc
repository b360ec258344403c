#include "backends/cpu/simd/column_sums.h"
#include "ops/reductions.h"

namespace mtl {
namespace {

template <typename T>
Status sum_rows_of(const OpCall& call) {
  using Op = SumRows;
  const int64_t columns = call.tensor(Op::kInput).dim(-1);
  const T* const input = call.data<T>(Op::kInput);
  float* const output = call.data<float>(Op::kOutput);
  const bool accumulate = call.flag(Op::kAccumulate);
  return column_sums(
      call.tensor(Op::kInput).rows(), columns,
      [&](int64_t first, int64_t last, float* sums) {
        for (int64_t row = first; row < last; ++row) {
          for (int64_t column = 0; column < columns; column += kLanes) {
            const int64_t left = columns - column;
            const VFloat value = load_up_to(input + row * columns + column, left);
            store_up_to(sums + column, load_up_to(sums + column, left) + value, left);
          }
        }
      },
      [&](int64_t column, float total) { output[column] = accumulate ? output[column] + total : total; });
}

Status sum_rows(const OpCall& call) {
  using Op = SumRows;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) { return sum_rows_of<__typeof__(*type)>(call); });
}

Status sum_rows_scratch(const OpCall& call, ScratchBlocks* blocks) {
  const TensorView& input = call.tensor(SumRows::kInput);
  blocks->add(column_sums_bytes(input.rows(), input.dim(-1)));
  return ok_status();
}

constexpr int64_t kChunk = 4096;

int64_t num_chunks_of(const OpCall& call) {
  return (call.tensor(SumOfSquares::kInput).size() + kChunk - 1) / kChunk;
}

Status sum_of_squares_scratch(const OpCall& call, ScratchBlocks* blocks) {
  blocks->add(num_chunks_of(call) * static_cast<int64_t>(sizeof(double)));
  return ok_status();
}

// Sums chunks of a fixed size in float lanes, then adds the chunk sums in double, in order. The result thus
// does not depend on the number of threads.
Status sum_of_squares(const OpCall& call) {
  using Op = SumOfSquares;
  if (call.tensor(Op::kInput).dtype != DType::kFloat32) {
    return error_status("MTL_DTYPE", "sum_of_squares: float64 is computed on the reference device only");
  }
  const float* const input = call.data<float>(Op::kInput);
  const int64_t size = call.tensor(Op::kInput).size(), num_chunks = num_chunks_of(call);
  const Scratch scratch(sizeof(double) * static_cast<uint64_t>(num_chunks));
  if (scratch.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "sum_of_squares: no memory for partial sums");
  double* const partial = static_cast<double*>(scratch.data);
  for_each(num_chunks, size, [&](int64_t chunk) {
    const int64_t start = chunk * kChunk, end = start + kChunk < size ? start + kChunk : size;
    VFloat squares[4] = {};
    int64_t i = start;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
      for (int part = 0; part < 4; ++part) {
        const VFloat value = load(input + i + part * kLanes);
        squares[part] += value * value;
      }
    }
    double total = 0.0;
    for (int part = 0; part < 4; ++part) {
      for (int lane = 0; lane < kLanes; ++lane) total += squares[part][lane];
    }
    for (; i < end; ++i) total += static_cast<double>(input[i]) * input[i];
    partial[chunk] = total;
  });
  double* const output = call.data<double>(Op::kOutput);
  double total = call.flag(Op::kAccumulate) ? output[0] : 0.0;
  for (int64_t chunk = 0; chunk < num_chunks; ++chunk) total += partial[chunk];
  output[0] = total;
  return ok_status();
}

// Adds the tokens one after another, so that the loss depends neither on the vector length nor on the number
// of threads. This is fast enough, because a micro-batch has only thousands of tokens.
Status weighted_sum(const OpCall& call) {
  using Op = WeightedSum;
  if (call.tensor(Op::kValues).dtype != DType::kFloat32) {
    return error_status("MTL_DTYPE", "weighted_sum: float64 is computed on the reference device only");
  }
  const float *const values = call.data<float>(Op::kValues), *const weights = call.data<float>(Op::kWeights);
  double sum = 0.0;
  // the product of two floats is exact in double
  for (int64_t i = 0; i < call.tensor(Op::kValues).size(); ++i) sum += static_cast<double>(values[i]) * weights[i];
  call.data<double>(Op::kOutput)[0] = sum;
  return ok_status();
}

MTL_REGISTER_CPU("sum_rows", sum_rows, sum_rows_scratch);
MTL_REGISTER_CPU("sum_of_squares", sum_of_squares, sum_of_squares_scratch);
MTL_REGISTER_CPU("weighted_sum", weighted_sum);

}  // namespace
}  // namespace mtl

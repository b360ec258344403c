#include "ops/grouped_bias.h"

#include "backends/cpu/simd/group_walk.h"
#include "core/index_check.h"

namespace mtl {
namespace {

constexpr int64_t kRowsTogether = 64;  // are summed before they are added to the total: fewer roundings of large sums

template <typename T>
struct SummedRows {
  const T* input;
  const float* weights;  // null: all 1
  int64_t width;
};

// Returns the sum over the rows [first, last), for one vector of columns.
template <typename T>
MTL_INLINE VFloat sum_of_rows(const SummedRows<T>& of, int64_t first, int64_t last, int64_t column) {
  VFloat total = {};
  for (int64_t start = first; start < last; start += kRowsTogether) {
    VFloat partial = {};
    for (int64_t row = start; row < smaller(start + kRowsTogether, last); ++row) {
      const VFloat value = load_up_to(of.input + row * of.width + column, of.width - column);
      partial += of.weights == nullptr ? value : value * of.weights[row];
    }
    total += partial;
  }
  return total;
}

// Sums the rows of each group. A task is a group with a range of columns, so that each sum is computed by a
// single thread.
template <typename T>
Status sum_rows_of(const OpCall& call) {
  using Op = GroupedSumRows;
  constexpr int64_t kColumns = 64;
  const int64_t rows = call.tensor(Op::kInput).rows(), width = call.tensor(Op::kInput).dim(-1),
                groups = call.tensor(Op::kOutput).dim(0), parts = divide_up(width, kColumns);
  const bool accumulate = call.flag(Op::kAccumulate);
  const SummedRows<T> of = {call.data<T>(Op::kInput), call.data<float>(Op::kWeights), width};
  const int32_t* const offsets = call.data<int32_t>(Op::kOffsets);
  float* const output = call.data<float>(Op::kOutput);
  for_tasks(groups * parts, 1, threads_for(rows * width), [&](int64_t task, int) {
    const int64_t group = task / parts, start = task % parts * kColumns, end = smaller(start + kColumns, width);
    for (int64_t column = start; column < end; column += kLanes) {
      float* const to = output + group * width + column;
      VFloat sum = sum_of_rows(of, offsets[group], offsets[group + 1], column);
      if (accumulate) sum += load_up_to(to, end - column);
      store_up_to(to, sum, end - column);
    }
  });
  return ok_status();
}

template <typename T>
Status forward_of(const OpCall& call) {
  using Op = GroupedBiasForward;
  const int64_t rows = call.tensor(Op::kInput).rows(), width = call.tensor(Op::kInput).dim(-1),
                groups = call.tensor(Op::kBias).dim(0);
  T* const output = call.data<T>(Op::kOutput);
  const T *const input = call.data<T>(Op::kInput), *const bias = call.data<T>(Op::kBias);
  const float* const probabilities = call.data<float>(Op::kProbabilities);
  const int32_t* const offsets = call.data<int32_t>(Op::kOffsets);
  for_ranges(rows, rows * width, [&](int64_t first, int64_t last) {
    GroupWalk walk(offsets, groups);
    for (int64_t row = first; row < last; ++row) {
      const int64_t group = walk.group_of(row);
      const float probability = probabilities == nullptr ? 1.0f : probabilities[row];
      for (int64_t column = 0; column < width; column += kLanes) {
        const int64_t left = width - column, at = row * width + column;
        const VFloat value = group == groups ? VFloat{}
                                             : load_up_to(input + at, left) +
                                                   probability * load_up_to(bias + group * width + column, left);
        store_up_to(output + at, value, left);
      }
    }
  });
  return ok_status();
}

template <typename T>
Status backward_of(const OpCall& call) {
  using Op = GroupedBiasBackward;
  const int64_t rows = call.tensor(Op::kOutputGradient).rows(), width = call.tensor(Op::kBias).dim(1),
                groups = call.tensor(Op::kBias).dim(0);
  float* const gradient = call.data<float>(Op::kProbabilitiesGradient);
  const T *const output_gradient = call.data<T>(Op::kOutputGradient), *const bias = call.data<T>(Op::kBias);
  const int32_t* const offsets = call.data<int32_t>(Op::kOffsets);
  for_ranges(rows, rows * width, [&](int64_t first, int64_t last) {
    GroupWalk walk(offsets, groups);
    for (int64_t row = first; row < last; ++row) {
      const int64_t group = walk.group_of(row);
      VFloat products = {};
      for (int64_t column = 0; group < groups && column < width; column += kLanes) {
        const int64_t left = width - column;
        products += load_up_to(output_gradient + row * width + column, left) * load_up_to(bias + group * width + column, left);
      }
      gradient[row] = sum(products);
    }
  });
  return ok_status();
}

Status grouped_sum_rows(const OpCall& call) {
  using Op = GroupedSumRows;
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, call.tensor(Op::kInput).rows()));
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) { return sum_rows_of<__typeof__(*type)>(call); });
}

Status forward(const OpCall& call) {
  using Op = GroupedBiasForward;
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, call.tensor(Op::kInput).rows()));
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) { return forward_of<__typeof__(*type)>(call); });
}

Status backward(const OpCall& call) {
  using Op = GroupedBiasBackward;
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, call.tensor(Op::kOutputGradient).rows()));
  return for_floating(call.tensor(Op::kOutputGradient).dtype,
                      [&](auto* type) { return backward_of<__typeof__(*type)>(call); });
}

MTL_REGISTER_CPU("grouped_sum_rows", grouped_sum_rows);
MTL_REGISTER_CPU("grouped_bias_forward", forward);
MTL_REGISTER_CPU("grouped_bias_backward", backward);

}  // namespace
}  // namespace mtl

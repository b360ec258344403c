// The CUDA cross entropy kernels, run under emulation and compared with the reference device: widths below
// one access and widths that occupy every thread, padded and absent columns, labels on other ranks, weights
// of 0, in place.
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cuda/loss/cross_entropy.h"
#include "tests/cuda_kernel_test.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

using emulation::Order;

struct Case {
  int64_t num_rows, width, num_columns, first_column;
  int64_t offset = 0;  // offset of the logits in their storage: 1 leaves no row aligned
};

constexpr Case kCases[] = {
    {6, 13, 13, 2},      {6, 128, 101, 2},  {5, 300, 300, 0},  {4, 64, 0, 64},     {3, 1, 1, 0},
    {3, 4096, 4090, 100}, {2, 9001, 9001, 5}, {3, 16512, 16500, 0}, {3, 256, 250, 0, 1},
};

struct Tensors {
  HostTensor logits, labels, weights, maximum, sum, label_logit, loss, gradient;

  Tensors(const Case& one, DType dtype)
      : logits(dtype, {one.num_rows * one.width + one.offset}),
        labels(DType::kInt32, {one.num_rows}),
        weights(DType::kFloat32, {one.num_rows}),
        maximum(DType::kFloat32, {one.num_rows}),
        sum(DType::kFloat32, {one.num_rows}),
        label_logit(DType::kFloat32, {one.num_rows}),
        loss(DType::kFloat32, {one.num_rows}),
        gradient(dtype, {one.num_rows, one.width}) {
    logits.fill(3, 6.0);
    for (int64_t row = 0; row < one.num_rows; ++row) {
      // labels among, before and beyond the columns of this rank, and in a padded column
      const int64_t columns[] = {one.num_columns / 2, one.first_column > 0 ? -1 : 1 << 19, one.num_columns - 1, one.num_columns, 0, 1 << 20};
      labels.set(row, static_cast<double>(one.first_column + columns[row % 6]));
      weights.set(row, row % 3 == 2 ? 0.0 : 0.25 + 0.5 * static_cast<double>(row));
      // neither padding nor an ignored row may matter
      for (int64_t column = 0; column < one.width; ++column) {
        const bool counts = column < one.num_columns && row % 3 != 2;
        if (!counts && column % 2 == 0) logits.set(one.offset + row * one.width + column, std::nan(""));
      }
    }
  }

  TensorView logits_of(const Case& one) const {
    TensorView view = logits.view();
    view.data = static_cast<unsigned char*>(view.data) + static_cast<size_t>(one.offset) * size_of(view.dtype);
    view.rank = 2;
    view.shape[0] = one.num_rows;
    view.shape[1] = one.width;
    return view;
  }
  cuda::CrossEntropyRows rows(const Case& one) const {
    const TensorView view = logits_of(one);
    return {view.dtype, one.num_rows, one.width, view.data, labels.data<const int32_t>(), one.first_column, one.num_columns, nullptr};
  }
  cuda::CrossEntropyRowStatistics statistics() const {
    return {maximum.data<float>(), sum.data<float>(), label_logit.data<float>()};
  }
  cuda::CrossEntropyGradient results() const { return {gradient.data<void>(), loss.data<float>(), weights.data<const float>()}; }
  bool same_bits(const Tensors& other) const {
    return maximum.same_bits(other.maximum) && sum.same_bits(other.sum) && label_logit.same_bits(other.label_logit) &&
           loss.same_bits(other.loss) && gradient.same_bits(other.gradient);
  }
  bool guards_stand() const {
    return maximum.guards_stand() && sum.guards_stand() && label_logit.guards_stand() && loss.guards_stand() &&
           gradient.guards_stand() && logits.guards_stand();
  }
};

// The reference's results; the gradient in float32 for any logits dtype.
Tensors reference_of(const Case& one, DType dtype) {
  Tensors tensors(one, dtype);
  tensors.gradient = HostTensor(DType::kFloat32, {one.num_rows, one.width});
  const double first_column = static_cast<double>(one.first_column), num_columns = static_cast<double>(one.num_columns),
               of_statistics[] = {first_column, num_columns, 0},
               of_backward[] = {first_column, num_columns, 1 << 21, std::nan(""), 0, 0};
  run_reference("cross_entropy_statistics",
                {tensors.maximum.view(), tensors.sum.view(), tensors.label_logit.view(), tensors.logits_of(one), tensors.labels.view()},
                of_statistics);
  run_reference("cross_entropy_backward",
                {tensors.gradient.view(), tensors.loss.view(), tensors.logits_of(one), tensors.labels.view(),
                 tensors.maximum.view(), tensors.sum.view(), tensors.label_logit.view(), tensors.weights.view()},
                of_backward);
  return tensors;
}

// Ignored rows contain NaN: their statistics may be anything, their loss and gradient are 0.
bool values_agree(const char* what, const Case& one, const HostTensor& actual, const HostTensor& expected, double tolerance) {
  for (int64_t row = 0; row < one.num_rows; ++row) {
    const double mine = actual.get(row), right = expected.get(row);
    if (row % 3 == 2 || mine == right || std::fabs(mine - right) <= tolerance * (1 + std::fabs(right))) continue;
    std::printf("  %s, [%lld, %lld], row %lld: %.9g, expected %.9g\n", what, static_cast<long long>(one.num_rows),
                static_cast<long long>(one.width), static_cast<long long>(row), mine, right);
    return false;
  }
  return true;
}

// The error of sums of up to 16500 exponentials in float32, four to eight running sums in each of hundreds of
// threads.
constexpr double kSumTolerance = 2e-6;
// The relative error of a gradient row, whose elements are rounded to 8 bits (bfloat16: 2^-9) or 11
// (float16).
double gradient_tolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 2e-6 : dtype == DType::kBFloat16 ? 4e-3 : 5e-4;
}

void check(const Case& one, DType dtype) {
  const Tensors expected = reference_of(one, dtype);
  std::vector<Tensors> results;
  for (const Order order : {Order::kAscending, Order::kDescending, Order::kShuffled}) {
    emulation::set_order(order, 5);
    results.emplace_back(one, dtype);
    const Tensors& mine = results.back();
    EXPECT(ran(cuda::cross_entropy_statistics(mine.rows(one), mine.statistics())));
    EXPECT(ran(cuda::cross_entropy_backward(mine.rows(one), mine.statistics(), mine.results())));
    EXPECT(mine.guards_stand());
    const Tensors together(one, dtype);
    EXPECT(ran(cuda::cross_entropy_forward_backward(together.rows(one), together.statistics(), together.results())));
    EXPECT(together.guards_stand());
    EXPECT(mine.same_bits(results.front()));
    EXPECT(mine.same_bits(together));
  }
  emulation::set_order(Order::kAscending);
  const Tensors& mine = results.front();
  EXPECT(values_agree("maximum", one, mine.maximum, expected.maximum, 0));
  EXPECT(values_agree("sum", one, mine.sum, expected.sum, kSumTolerance));
  EXPECT(values_agree("labelLogit", one, mine.label_logit, expected.label_logit, 0));
  for (int64_t row = 2; row < one.num_rows; row += 3) EXPECT(mine.loss.get(row) == 0.0);
  if (one.num_columns == 0) return;  // the loss comes from other ranks' statistics
  EXPECT(values_agree("loss", one, mine.loss, expected.loss, kSumTolerance));
  EXPECT(rows_agree("gradient", mine.gradient, expected.gradient, one.width, gradient_tolerance(dtype)));
}

}  // namespace

MTL_TEST(cuda_cross_entropy_agrees) {
  for (const Case& one : kCases) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) check(one, dtype);
  }
}

// A gradient in the memory of the logits, and the loss alone, have the bits of a call with separate memory.
MTL_TEST(cuda_cross_entropy_works_in_place) {
  const Case one = {6, 500, 490, 0};
  const Tensors apart(one, DType::kBFloat16), within(one, DType::kBFloat16), alone(one, DType::kBFloat16);
  EXPECT(ran(cuda::cross_entropy_forward_backward(apart.rows(one), apart.statistics(), apart.results())));
  cuda::CrossEntropyGradient to = within.results();
  to.logit_gradient = within.logits.data<void>();
  EXPECT(ran(cuda::cross_entropy_forward_backward(within.rows(one), within.statistics(), to)));
  EXPECT(apart.gradient.same_bits(within.logits));
  EXPECT(apart.loss.same_bits(within.loss));
  to = alone.results();
  to.logit_gradient = nullptr;
  EXPECT(ran(cuda::cross_entropy_forward_backward(alone.rows(one), alone.statistics(), to)));
  EXPECT(apart.loss.same_bits(alone.loss));
}

// Two ranks with half a vocabulary each, the second ending in padding: the sums equal the sums over the whole
// vocabulary.
MTL_TEST(cuda_cross_entropy_works_over_two_ranks) {
  const Case whole = {4, 256, 201, 0};
  const Tensors expected = reference_of(whole, DType::kFloat32);
  std::vector<Tensors> ranks;
  for (int64_t rank = 0; rank < 2; ++rank) {
    const Case part = {4, 128, rank == 0 ? 128 : 73, 128 * rank};
    ranks.emplace_back(part, DType::kFloat32);
    for (int64_t row = 0; row < 4; ++row) {
      ranks.back().labels.set(row, expected.labels.get(row));
      for (int64_t column = 0; column < 128; ++column) {
        ranks.back().logits.set(row * 128 + column, expected.logits.get(row * 256 + 128 * rank + column));
      }
    }
    EXPECT(ran(cuda::cross_entropy_statistics(ranks.back().rows(part), ranks.back().statistics())));
  }
  HostTensor group_maximum(DType::kFloat32, {4});
  for (int64_t row = 0; row < 4; ++row) {
    group_maximum.set(row, std::fmax(ranks[0].maximum.get(row), ranks[1].maximum.get(row)));
  }
  for (Tensors& rank : ranks) {
    EXPECT(ran(cuda::cross_entropy_rescale(rank.sum.data<float>(), rank.sum.data<float>(), rank.maximum.data<float>(),
                                           group_maximum.data<float>(), 4, nullptr)));
  }
  HostTensor sum(DType::kFloat32, {4});
  for (int64_t row = 0; row < 4; ++row) {
    sum.set(row, ranks[0].sum.get(row) + ranks[1].sum.get(row));
  }
  EXPECT(values_agree("maximum of the group", whole, group_maximum, expected.maximum, 0));
  EXPECT(values_agree("sum of the group", whole, sum, expected.sum, kSumTolerance));
}

}  // namespace mtl::tests

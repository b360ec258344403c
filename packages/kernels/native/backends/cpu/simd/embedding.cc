#include "backends/cpu/simd/simd.h"
#include "core/index_check.h"
#include "ops/embedding.h"

namespace mtl {
namespace {

template <typename T>
Status forward_of(const OpCall& call) {
  using Op = EmbeddingForward;
  const int64_t tokens = call.tensor(Op::kOutput).rows(), hidden = call.tensor(Op::kOutput).dim(-1),
      vocabulary = call.tensor(Op::kTable).dim(0);
  const int64_t first_row = call.integer(Op::kFirstRow);
  const bool accumulate = call.flag(Op::kAccumulate);
  T* const output = call.data<T>(Op::kOutput);
  const int32_t* const ids = call.data<int32_t>(Op::kIds);
  const T* const table = call.data<T>(Op::kTable);
  for_each(tokens, tokens * hidden, [&](int64_t token) {
    const int64_t row = ids[token] - first_row;
    const bool inside = row >= 0 && row < vocabulary;
    T* const to = output + token * hidden;
    for (int64_t h = 0; h < hidden; h += kLanes) {
      const int64_t left = hidden - h;
      VFloat value = inside ? load_up_to(table + row * hidden + h, left) : VFloat{};
      if (accumulate) value += load_up_to(to + h, left);
      store_up_to(to + h, value, left);
    }
  });
  return ok_status();
}

// Divides the columns among threads, so that each element of the table is summed by a single thread, in token
// order.
template <typename T>
Status backward_of(const OpCall& call) {
  using Op = EmbeddingBackward;
  const int64_t tokens = call.tensor(Op::kOutputGradient).rows(), hidden = call.tensor(Op::kTableGradient).dim(-1),
      vocabulary = call.tensor(Op::kTableGradient).dim(0);
  const int64_t first_row = call.integer(Op::kFirstRow);
  float* const gradient = call.data<float>(Op::kTableGradient);
  const T* const output_gradient = call.data<T>(Op::kOutputGradient);
  const int32_t* const ids = call.data<int32_t>(Op::kIds);
  constexpr int64_t kColumns = 64;
  for_each(divide_up(hidden, kColumns), tokens * hidden, [&](int64_t columns) {
    const int64_t start = columns * kColumns, end = smaller(start + kColumns, hidden);
    for (int64_t token = 0; token < tokens; ++token) {
      const int64_t row = ids[token] - first_row;
      if (row < 0 || row >= vocabulary) continue;
      for (int64_t h = start; h < end; h += kLanes) {
        float* const to = gradient + row * hidden + h;
        store_up_to(to, load_up_to(to, end - h) + load_up_to(output_gradient + token * hidden + h, end - h), end - h);
      }
    }
  });
  return ok_status();
}

Status forward(const OpCall& call) {
  using Op = EmbeddingForward;
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kIds, call.integer(Op::kNumRows)));
  return for_floating(call.tensor(Op::kOutput).dtype, [&](auto* type) { return forward_of<__typeof__(*type)>(call); });
}

Status backward(const OpCall& call) {
  using Op = EmbeddingBackward;
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kIds, call.integer(Op::kNumRows)));
  return for_floating(call.tensor(Op::kOutputGradient).dtype,
                      [&](auto* type) { return backward_of<__typeof__(*type)>(call); });
}

MTL_REGISTER_CPU("embedding_forward", forward);
MTL_REGISTER_CPU("embedding_backward", backward);

}  // namespace
}  // namespace mtl

#include "backends/cpu/simd/simd.h"
#include "core/index_check.h"

namespace mtl {
namespace {

template <typename T>
Status forward_of(const OpCall& call) {
  const int64_t tokens = call.tensor(0).rows(), hidden = call.tensor(0).dim(-1), vocabulary = call.tensor(2).dim(0);
  const int64_t first_row = call.integer(0);
  const bool accumulate = call.flag(1);
  T* const output = call.data<T>(0);
  const int32_t* const ids = call.data<int32_t>(1);
  const T* const table = call.data<T>(2);
#pragma omp parallel for schedule(static) if (tokens * hidden >= kParallelElements)
  for (int64_t token = 0; token < tokens; ++token) {
    const int64_t row = ids[token] - first_row;
    const bool inside = row >= 0 && row < vocabulary;
    T* const to = output + token * hidden;
    for (int64_t h = 0; h < hidden; h += kLanes) {
      const int64_t left = hidden - h;
      VFloat value = inside ? load_up_to(table + row * hidden + h, left) : VFloat{};
      if (accumulate) value += load_up_to(to + h, left);
      store_up_to(to + h, value, left);
    }
  }
  return ok_status();
}

// Threads share out the columns, so that every element of the table is summed by one thread in token order.
template <typename T>
Status backward_of(const OpCall& call) {
  const int64_t tokens = call.tensor(1).rows(), hidden = call.tensor(0).dim(-1), vocabulary = call.tensor(0).dim(0);
  const int64_t first_row = call.integer(0);
  float* const gradient = call.data<float>(0);
  const T* const output_gradient = call.data<T>(1);
  const int32_t* const ids = call.data<int32_t>(2);
  constexpr int64_t kColumns = 64;
#pragma omp parallel for schedule(static) if (tokens * hidden >= kParallelElements)
  for (int64_t start = 0; start < hidden; start += kColumns) {
    const int64_t end = start + kColumns < hidden ? start + kColumns : hidden;
    for (int64_t token = 0; token < tokens; ++token) {
      const int64_t row = ids[token] - first_row;
      if (row < 0 || row >= vocabulary) continue;
      for (int64_t h = start; h < end; h += kLanes) {
        float* const to = gradient + row * hidden + h;
        store_up_to(to, load_up_to(to, end - h) + load_up_to(output_gradient + token * hidden + h, end - h), end - h);
      }
    }
  }
  return ok_status();
}

Status forward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_indices(call, 1, call.integer(2)));
  return for_floating(call.tensor(0).dtype, [&](auto* type) { return forward_of<__typeof__(*type)>(call); });
}

Status backward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_indices(call, 2, call.integer(1)));
  return for_floating(call.tensor(1).dtype, [&](auto* type) { return backward_of<__typeof__(*type)>(call); });
}

MTL_REGISTER_CPU("embedding_forward", forward);
MTL_REGISTER_CPU("embedding_backward", backward);

}  // namespace
}  // namespace mtl

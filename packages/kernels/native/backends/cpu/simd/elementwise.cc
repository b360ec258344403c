#include "backends/cpu/simd/simd.h"
#include "ops/elementwise.h"

namespace mtl {
namespace {

constexpr int64_t kChunk = 4096;

// Calls body(first, last) for chunks of [0, size) on all threads.
template <typename Body>
MTL_INLINE void for_chunks(int64_t size, const Body& body) {
#pragma omp parallel for schedule(static) if (size >= kParallelElements)
  for (int64_t start = 0; start < size; start += kChunk) body(start, start + kChunk < size ? start + kChunk : size);
}

Status cast(const OpCall& call) {
  using Op = Cast;
  return for_floating(call.tensor(Op::kOutput).dtype, [&](auto* output_type) {
    return for_floating(call.tensor(Op::kInput).dtype, [&](auto* input_type) {
      auto* const output = call.data<__typeof__(*output_type)>(0);
      const auto* const input = call.data<__typeof__(*input_type)>(1);
      for_chunks(call.tensor(Op::kOutput).size(), [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; i += kLanes) store_up_to(output + i, load_up_to(input + i, last - i), last - i);
      });
      return ok_status();
    });
  });
}

Status add(const OpCall& call) {
  using Op = Add;
  return for_floating(call.tensor(Op::kOutput).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    T* const output = call.data<T>(Op::kOutput);
    const T *const left = call.data<T>(Op::kLeft), *const right = call.data<T>(Op::kRight);
    for_chunks(call.tensor(Op::kOutput).size(), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; i += kLanes) {
        store_up_to(output + i, load_up_to(left + i, last - i) + load_up_to(right + i, last - i), last - i);
      }
    });
    return ok_status();
  });
}

MTL_REGISTER_CPU("cast", cast);
MTL_REGISTER_CPU("add", add);

}  // namespace
}  // namespace mtl

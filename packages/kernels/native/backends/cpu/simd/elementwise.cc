#include "backends/cpu/simd/row_ranges.h"
#include "ops/elementwise.h"

namespace mtl {
namespace {

constexpr int64_t kChunk = 4096;

// Calls body(first, last) for each chunk of [0, size), on all threads.
template <typename Body>
MTL_INLINE void for_chunks(int64_t size, const Body& body) {
  for_each(divide_up(size, kChunk), size,
           [&](int64_t chunk) { body(chunk * kChunk, smaller((chunk + 1) * kChunk, size)); });
}

template <typename To, typename From>
MTL_INLINE void cast_row(To* output, const From* input, int64_t size) {
  for (int64_t i = 0; i < size; i += kLanes) store_up_to(output + i, load_up_to(input + i, size - i), size - i);
}

Status cast(const OpCall& call) {
  using Op = Cast;
  const TensorView &to = call.tensor(Op::kOutput), &from = call.tensor(Op::kInput);
  return for_floating(to.dtype, [&](auto* output_type) {
    return for_floating(from.dtype, [&](auto* input_type) {
      using To = __typeof__(*output_type);
      using From = const __typeof__(*input_type);
      To* const output = call.data<To>(Op::kOutput);
      From* const input = call.data<From>(Op::kInput);
      if (!to.is_strided && !from.is_strided) {
        for_chunks(to.size(), [&](int64_t first, int64_t last) { cast_row(output + first, input + first, last - first); });
        return ok_status();
      }
      const RowLayout outputs = row_layout_of(to), inputs = row_layout_of(from);
      for_ranges(to.rows(), to.size(), [&](int64_t first, int64_t last) {
        RowWalk<To> output_row(output, outputs, first);
        RowWalk<From> input_row(input, inputs, first);
        for (int64_t row = first; row < last; ++row, output_row.next(), input_row.next()) {
          cast_row(output_row.row(), input_row.row(), to.dim(-1));
        }
      });
      return ok_status();
    });
  });
}

Status scale(const OpCall& call) {
  using Op = Scale;
  const TensorView &to = call.tensor(Op::kOutput), &from = call.tensor(Op::kInput);
  const float factor = static_cast<float>(call.attribute(Op::kFactor));
  const bool accumulates = call.flag(Op::kAccumulate);
  const int64_t columns = to.dim(-1);
  return for_floating(to.dtype, [&](auto* output_type) {
    return for_floating(from.dtype, [&](auto* input_type) {
      using To = __typeof__(*output_type);
      using From = const __typeof__(*input_type);
      const RowLayout outputs = row_layout_of(to), inputs = row_layout_of(from);
      for_ranges(to.rows(), to.size(), [&](int64_t first, int64_t last) {
        RowWalk<To> output_row(call.data<To>(Op::kOutput), outputs, first);
        RowWalk<From> input_row(call.data<From>(Op::kInput), inputs, first);
        for (int64_t row = first; row < last; ++row, output_row.next(), input_row.next()) {
          To* const output = output_row.row();
          for (int64_t i = 0; i < columns; i += kLanes) {
            VFloat value = load_up_to(input_row.row() + i, columns - i) * factor;
            if (accumulates) value += load_up_to(output + i, columns - i);
            store_up_to(output + i, value, columns - i);
          }
        }
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
MTL_REGISTER_CPU("scale", scale);
MTL_REGISTER_CPU("add", add);

}  // namespace
}  // namespace mtl

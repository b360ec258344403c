#include "ops/rotary_embedding.h"

#include "backends/cpu/simd/row_ranges.h"
#include "core/index_check.h"

namespace mtl {
namespace {

struct Pair {
  VFloat a, b;
};

MTL_INLINE Pair rotated(const Pair& of, VFloat cosine, VFloat sine) {
  return {of.a * cosine - of.b * sine, of.a * sine + of.b * cosine};
}

// Converts (e0 o0 e1 o1 ...), given in two vectors, to (e0 e1 ...) and (o0 o1 ...).
MTL_INLINE Pair deinterleaved(const Pair& of) {
  const auto even = lane_order([](int lane) { return 2 * lane; });
  const auto odd = lane_order([](int lane) { return 2 * lane + 1; });
  return {shuffle(of.a, of.b, even), shuffle(of.a, of.b, odd)};
}

// Inverts `deinterleaved`.
MTL_INLINE Pair interleaved(const Pair& of) {
  const auto low = lane_order([](int lane) { return lane / 2 + lane % 2 * kLanes; });
  const auto high = lane_order([](int lane) { return lane / 2 + lane % 2 * kLanes + kLanes / 2; });
  return {shuffle(of.a, of.b, low), shuffle(of.a, of.b, high)};
}

// The angles for a position, the number of rotated pairs, and the direction of the rotation.
struct Rotation {
  const float *cosines, *sines;
  int64_t half;  // number of pairs
  float sign;    // of the angles
};

// Rotates one head. Each pair is read before it is written, so `to` may equal `from`.
template <bool kInterleaved, typename T>
MTL_INLINE void rotate(T* to, const T* from, const Rotation& by, int64_t size) {
  int64_t i = 0;
  for (; i + kLanes <= by.half; i += kLanes) {
    const int64_t first = kInterleaved ? 2 * i : i, second = kInterleaved ? first + kLanes : i + by.half;
    const VFloat cosine = load(by.cosines + i), sine = load(by.sines + i) * by.sign;
    Pair pair = {load(from + first), load(from + second)};
    pair = kInterleaved ? interleaved(rotated(deinterleaved(pair), cosine, sine)) : rotated(pair, cosine, sine);
    store(to + first, pair.a);
    store(to + second, pair.b);
  }
  for (; i < by.half; ++i) {
    const int64_t first = kInterleaved ? 2 * i : i, second = kInterleaved ? first + 1 : i + by.half;
    const float cosine = by.cosines[i], sine = by.sines[i] * by.sign;
    const float a = load_one(from + first), b = load_one(from + second);
    store_one(to + first, a * cosine - b * sine);
    store_one(to + second, a * sine + b * cosine);
  }
  if (to == from) return;
  for (int64_t d = 2 * by.half; d < size; d += kLanes) store_up_to(to + d, load_up_to(from + d, size - d), size - d);
}

template <bool kInterleaved, typename T>
Status run_of(const OpCall& call) {
  using Op = RotaryEmbedding;
  const TensorView &input = call.tensor(Op::kInput), &table = call.tensor(Op::kTable);
  const int64_t rows = input.rows(), size = input.dim(-1), num_positions = call.tensor(Op::kPositions).size();
  if (rows == 0) return ok_status();
  const RowLayout inputs = row_layout_of(input), outputs = row_layout_of(call.tensor(Op::kOutput));
  const int64_t heads = rows / num_positions, rotated_size = table.dim(1);
  const int32_t* const positions = call.data<int32_t>(Op::kPositions);
  const float* const angles = call.data<float>(Op::kTable);
  const float sign = call.flag(Op::kInverse) ? -1.0f : 1.0f;
  for_ranges(num_positions, rows * size, [&](int64_t first, int64_t last) {
    RowWalk<const T> from(call.data<T>(Op::kInput), inputs, first * heads);
    RowWalk<T> to(call.data<T>(Op::kOutput), outputs, first * heads);
    for (int64_t at = first; at < last; ++at) {
      const float* const cosines = angles + positions[at] * rotated_size;
      const Rotation rotation = {cosines, cosines + rotated_size / 2, rotated_size / 2, sign};
      for (int64_t head = 0; head < heads; ++head, from.next(), to.next()) {
        rotate<kInterleaved>(to.row(), from.row(), rotation, size);
      }
    }
  });
  return ok_status();
}

Status run(const OpCall& call) {
  using Op = RotaryEmbedding;
  MTL_RETURN_IF_ERROR(expect_indices(call, Op::kPositions, call.tensor(Op::kTable).dim(0)));
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    return call.flag(Op::kInterleaved) ? run_of<true, T>(call) : run_of<false, T>(call);
  });
}

MTL_REGISTER_CPU("rotary_embedding", run);

}  // namespace
}  // namespace mtl

// precision_aware_adamw on vectors. Blocks of values that stay in the first-level cache are converted to
// float32, so that one loop serves all dtypes.
#include "ops/precision_aware_adamw.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/simd/simd.h"
#include "core/caching_allocator.h"

namespace mtl {
namespace {

using Op = PrecisionAwareAdamw;

constexpr int64_t kChunk = 16384;
constexpr int64_t kBlock = 512;

struct Coefficients {
  float beta1, beta2, epsilon, gradient_factor, step, inverse_correction2, keep_decayed;
};

// A buffer of the model or of the optimizer, and its dtype.
struct Values {
  char* data;
  DType dtype;

  void* at(int64_t index) const { return data + index * static_cast<int64_t>(size_of(dtype)); }
};

Values values_of(const OpCall& call, int tensor) {
  if (!call.has(tensor)) return {nullptr, DType::kFloat32};
  return {static_cast<char*>(call.tensor(tensor).data), call.tensor(tensor).dtype};
}

template <typename T>
MTL_INLINE void read(float* block, const T* source, int64_t size) {
  for (int64_t i = 0; i < size; i += kLanes) store(block + i, load_up_to(source + i, size - i));
}

template <typename T>
MTL_INLINE void write(T* destination, const float* block, int64_t size) {
  for (int64_t i = 0; i < size; i += kLanes) store_up_to(destination + i, load(block + i), size - i);
}

// Calls `body` with a pointer to element `start`. The pointer has the type of the elements.
template <typename Body>
MTL_INLINE void in_dtype(const Values& values, int64_t start, const Body& body) {
  if (values.dtype == DType::kBFloat16) {
    body(static_cast<bfloat16*>(values.at(start)));
  } else if (values.dtype == DType::kFloat16) {
    body(static_cast<float16*>(values.at(start)));
  } else {
    body(static_cast<float*>(values.at(start)));
  }
}

void read(float* block, const Values& source, int64_t start, int64_t size) {
  in_dtype(source, start, [&](auto* from) { read(block, from, size); });
}

void write(const Values& destination, const float* block, int64_t start, int64_t size) {
  in_dtype(destination, start, [&](auto* to) { write(to, block, size); });
}

// Remainders are stored as bytes, which may begin at an odd address.
MTL_INLINE VUint load_halves(const uint16_t* source, int64_t left) {
  VHalfU halves = {};
  if (__builtin_expect(left >= kLanes, 1)) {
    memcpy(&halves, source, sizeof halves);
  } else {
    memcpy(&halves, source, left * sizeof *source);
  }
  return widen(halves);
}

MTL_INLINE void store_halves(uint16_t* destination, VUint value, int64_t left) {
  const VHalfU halves = narrow(value);
  if (__builtin_expect(left >= kLanes, 1)) {
    memcpy(destination, &halves, sizeof halves);
  } else {
    memcpy(destination, &halves, left * sizeof *destination);
  }
}

// `join_bits` for a vector.
void join(float* output, const uint16_t* rounded, const uint16_t* remainder, int64_t size) {
  for (int64_t i = 0; i < size; i += kLanes) {
    const VUint low = load_halves(remainder + i, size - i), high = load_halves(rounded + i, size - i);
    store_up_to(output + i, bits_to_float(((high - (low >> 15)) << 16) | low), size - i);
  }
}

// `split_bits` for a vector.
void split(uint16_t* rounded, uint16_t* remainder, const float* input, int64_t size) {
  for (int64_t i = 0; i < size; i += kLanes) {
    const VFloat value = load_up_to(input + i, size - i);
    const VUint all = float_to_bits(value), quiet = (all & 0x80000000u) | 0x7fc00000u;
    const VUint bits = (VUint)(value != value ? quiet : all);
    store_halves(rounded + i, ((bits + 0x8000u) >> 16) & 0xffffu, size - i);
    store_halves(remainder + i, bits & 0xffffu, size - i);
  }
}

// A moment, with the scales of its segments after and before the update. Both are null if the moment has no
// scales.
struct Moment {
  Values values;
  float* scales;
  const float* old_scales;
  int64_t num_segments;

  float old_scale(int64_t segment) const { return old_scales == nullptr ? 1.0f : segment < num_segments ? old_scales[segment] : 0.0f; }
  float inverse_scale(int64_t segment) const {
    if (scales == nullptr) return 1.0f;
    return segment < num_segments && scales[segment] > 0.0f ? 1.0f / scales[segment] : 0.0f;
  }
};

struct State {
  Values parameter, model, gradient;
  uint16_t* remainder;
  Moment first, second;
  Coefficients c;
  bool clear_gradient;
};

// Computes the new moments of elements [start, start + size), in float32.
MTL_INLINE void make_moments(const State& s, int64_t segment, int64_t start, int64_t size, float* m, float* v) {
  float gradients[kBlock];
  read(m, s.first.values, start, size);
  read(v, s.second.values, start, size);
  read(gradients, s.gradient, start, size);
  const Coefficients& c = s.c;
  const float first_scale = s.first.old_scale(segment), second_scale = s.second.old_scale(segment);
  for (int64_t i = 0; i < size; i += kLanes) {
    const VFloat gradient = load(gradients + i) * c.gradient_factor;
    store(m + i, c.beta1 * (load(m + i) * first_scale) + (1.0f - c.beta1) * gradient);
    store(v + i, c.beta2 * (load(v + i) * second_scale) + (1.0f - c.beta2) * gradient * gradient);
  }
}

// Writes a moment with its new scale.
void write_moment(const Moment& moment, int64_t segment, float* block, int64_t start, int64_t size) {
  if (moment.scales != nullptr) {
    const float inverse = moment.inverse_scale(segment);
    for (int64_t i = 0; i < size; i += kLanes) store(block + i, load(block + i) * inverse);
  }
  write(moment.values, block, start, size);
}

void update(const State& s, int64_t segment, bool decays, int64_t start, int64_t size) {
  float m[kBlock], v[kBlock], p[kBlock];
  make_moments(s, segment, start, size, m, v);
  uint16_t* const rounded = static_cast<uint16_t*>(s.parameter.at(start));
  if (s.remainder != nullptr) {
    join(p, rounded, s.remainder + start, size);
  } else {
    read(p, s.parameter, start, size);
  }
  const Coefficients& c = s.c;
  const float keep = decays ? c.keep_decayed : 1.0f;
  for (int64_t i = 0; i < size; i += kLanes) {
    const VFloat denominator = square_root(load(v + i) * c.inverse_correction2) + c.epsilon;
    store(p + i, load(p + i) * keep - c.step * load(m + i) / denominator);
  }
  if (s.remainder != nullptr) {
    split(rounded, s.remainder + start, p, size);
  } else {
    write(s.parameter, p, start, size);
    if (s.model.data != nullptr) write(s.model, p, start, size);
  }
  write_moment(s.first, segment, m, start, size);
  write_moment(s.second, segment, v, start, size);
  if (s.clear_gradient) memset(s.gradient.at(start), 0, static_cast<size_t>(size) * size_of(s.gradient.dtype));
}

// Returns the index of the first segment that ends after `index`.
int64_t segment_at(const int64_t* segments, int64_t num_segments, int64_t index) {
  int64_t low = 0, high = num_segments;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (segments[2 * middle] <= index) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

int64_t num_chunks_of(const OpCall& call) {
  return (call.tensor(Op::kGradient).size() + kChunk - 1) / kChunk;
}

// Calls body(chunk, segment, start, size) for every block of every segment, on all threads.
template <typename Body>
void for_blocks(const OpCall& call, const Body& body) {
  const int64_t* const segments = call.data<int64_t>(Op::kSegments);
  const int64_t size = call.tensor(Op::kGradient).size(), num_segments = call.tensor(Op::kSegments).dim(0);
  for_each(num_chunks_of(call), size, [&](int64_t chunk) {
    const int64_t chunk_end = smaller((chunk + 1) * kChunk, size);
    int64_t segment = segment_at(segments, num_segments, chunk * kChunk);
    for (int64_t start = chunk * kChunk; start < chunk_end; ++segment) {
      int64_t end = segment < num_segments ? smaller(segments[2 * segment], chunk_end) : chunk_end;
      if (end < start) end = start;  // a table that is not sorted must not cause out-of-bounds accesses
      for (; start < end; start += kBlock) body(chunk, segment, start, smaller(kBlock, end - start));
      start = end;
    }
  });
}

MTL_INLINE VFloat magnitude(VFloat value) { return bits_to_float(float_to_bits(value) & 0x7fffffffu); }

// Returns the largest magnitude in a block. Fills the block with zeros up to complete vectors.
float largest_in(float* block, int64_t size) {
  for (int64_t i = size; i % kLanes != 0; ++i) block[i] = 0.0f;
  VFloat by_lane = {};
  for (int64_t i = 0; i < size; i += kLanes) by_lane = maximum(by_lane, magnitude(load(block + i)));
  return largest(by_lane);
}

bool is_scaled(const OpCall& call) { return call.has(Op::kFirstScales) || call.has(Op::kSecondScales); }

// The scratch memory consists of floats: the old scales of both moments, and the largest magnitudes of both
// moments in each part. A part is the intersection of a segment and a chunk. Its index is the sum of the
// chunk's index and the segment's index; these sums are unique.
int64_t num_parts_of(const OpCall& call) { return num_chunks_of(call) + call.tensor(Op::kSegments).dim(0) + 1; }
int64_t scratch_bytes(const OpCall& call) {
  return 2 * (call.tensor(Op::kSegments).dim(0) + num_parts_of(call)) * static_cast<int64_t>(sizeof(float));
}

Status adamw_scratch(const OpCall& call, ScratchBlocks* blocks) {
  if (is_scaled(call)) blocks->add(scratch_bytes(call));
  return ok_status();
}

void keep_old_scales(Moment* moment, float* old) {
  if (moment->scales == nullptr) return;
  memcpy(old, moment->scales, static_cast<size_t>(moment->num_segments) * sizeof(float));
  moment->old_scales = old;
}

// Computes the scales of both moments. This requires a separate pass, because a segment's largest element
// determines the segment's scale, and rounding any element requires the scale.
void choose_scales(const OpCall& call, State* s, float* scratch) {
  const int64_t* const segments = call.data<int64_t>(Op::kSegments);
  const int64_t num_segments = call.tensor(Op::kSegments).dim(0), num_parts = num_parts_of(call);
  float* const largest = scratch + 2 * num_segments;
  memset(largest, 0, static_cast<size_t>(2 * num_parts) * sizeof(float));
  keep_old_scales(&s->first, scratch);
  keep_old_scales(&s->second, scratch + num_segments);
  for_blocks(call, [&](int64_t chunk, int64_t segment, int64_t start, int64_t size) {
    float m[kBlock], v[kBlock];
    make_moments(*s, segment, start, size, m, v);
    float* const part = largest + 2 * (chunk + segment);
    const float first = largest_in(m, size), second = largest_in(v, size);
    if (first > part[0]) part[0] = first;
    if (second > part[1]) part[1] = second;
  });
  int64_t start = 0;
  for (int64_t segment = 0; segment < num_segments; ++segment) {
    const int64_t end = smaller(segments[2 * segment], call.tensor(Op::kGradient).size());
    float first = 0.0f, second = 0.0f;
    for (int64_t chunk = start / kChunk; chunk * kChunk < end; ++chunk) {
      const float* const part = largest + 2 * (chunk + segment);
      if (part[0] > first) first = part[0];
      if (part[1] > second) second = part[1];
    }
    if (s->first.scales != nullptr) s->first.scales[segment] = float16_scale(first);
    if (s->second.scales != nullptr) s->second.scales[segment] = float16_scale(second);
    start = end;
  }
}

Moment moment_of(const OpCall& call, int values, int scales) {
  float* const own = call.has(scales) ? call.data<float>(scales) : nullptr;
  return {values_of(call, values), own, own, call.tensor(Op::kSegments).dim(0)};
}

// Updates all elements. `scratch` is memory for choosing the scales, if there are any.
Status adamw_with(const OpCall& call, float* scratch) {
  const float* const scalars = call.data<float>(Op::kScalars);
  const Values gradient = values_of(call, Op::kGradient);
  const int64_t size = call.tensor(Op::kGradient).size();
  if (scalars[4] == 0.0f) {
    if (call.flag(Op::kClearGradient)) memset(gradient.data, 0, static_cast<size_t>(size) * size_of(gradient.dtype));
    return ok_status();
  }
  State s = {values_of(call, Op::kParameter),
             values_of(call, Op::kModelParameter),
             gradient,
             call.has(Op::kRemainder) ? reinterpret_cast<uint16_t*>(call.tensor(Op::kRemainder).data) : nullptr,
             moment_of(call, Op::kFirstMoment, Op::kFirstScales),
             moment_of(call, Op::kSecondMoment, Op::kSecondScales),
             {static_cast<float>(call.attribute(Op::kBeta1)), static_cast<float>(call.attribute(Op::kBeta2)),
              static_cast<float>(call.attribute(Op::kEpsilon)), scalars[3], scalars[0] / scalars[1], 1.0f / scalars[2],
              1.0f - scalars[0] * static_cast<float>(call.attribute(Op::kWeightDecay))},
             call.flag(Op::kClearGradient)};
  if (scratch != nullptr) choose_scales(call, &s, scratch);
  const int64_t* const segments = call.data<int64_t>(Op::kSegments);
  const int64_t num_segments = call.tensor(Op::kSegments).dim(0);
  for_blocks(call, [&](int64_t, int64_t segment, int64_t start, int64_t count) {
    update(s, segment, segment < num_segments && segments[2 * segment + 1] != 0, start, count);
  });
  return ok_status();
}

Status adamw(const OpCall& call) {
  if (!is_scaled(call)) return adamw_with(call, nullptr);
  const Scratch scratch(static_cast<uint64_t>(scratch_bytes(call)));
  if (scratch.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "precision_aware_adamw: no memory for scales");
  return adamw_with(call, static_cast<float*>(scratch.data));
}

uint16_t* halves_of(const OpCall& call, int tensor) { return static_cast<uint16_t*>(call.tensor(tensor).data); }

// Calls body(start, size) for each chunk of [0, size), on all threads.
template <typename Body>
void for_chunks(int64_t size, const Body& body) {
  for_each(divide_up(size, kChunk), size,
           [&](int64_t chunk) { body(chunk * kChunk, smaller(kChunk, size - chunk * kChunk)); });
}

Status split_all(const OpCall& call) {
  const float* const input = call.data<float>(SplitRemainder::kInput);
  uint16_t* const rounded = halves_of(call, SplitRemainder::kRounded);
  uint16_t* const remainder = halves_of(call, SplitRemainder::kRemainder);
  for_chunks(call.tensor(SplitRemainder::kInput).size(), [&](int64_t start, int64_t size) {
    split(rounded + start, remainder + start, input + start, size);
  });
  return ok_status();
}

Status join_all(const OpCall& call) {
  float* const output = call.data<float>(JoinRemainder::kOutput);
  const uint16_t* const rounded = halves_of(call, JoinRemainder::kRounded);
  const uint16_t* const remainder = halves_of(call, JoinRemainder::kRemainder);
  for_chunks(call.tensor(JoinRemainder::kOutput).size(), [&](int64_t start, int64_t size) {
    join(output + start, rounded + start, remainder + start, size);
  });
  return ok_status();
}

MTL_REGISTER_CPU("precision_aware_adamw", adamw, adamw_scratch);
MTL_REGISTER_CPU("split_remainder", split_all);
MTL_REGISTER_CPU("join_remainder", join_all);

}  // namespace
}  // namespace mtl

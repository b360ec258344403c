// Names for the operand indices of precision_aware_adamw, split_remainder and join_remainder. The contracts
// are in precision_aware_adamw.cc.
#pragma once

#include <stdint.h>

#include "core/op_call.h"

namespace mtl {

struct PrecisionAwareAdamw {
  enum Tensors {
    kParameter,
    kRemainder,
    kModelParameter,
    kFirstMoment,
    kFirstScales,
    kSecondMoment,
    kSecondScales,
    kGradient,
    kScalars,
    kSegments
  };
  enum Attributes { kBeta1, kBeta2, kEpsilon, kWeightDecay, kClearGradient };
};

struct SplitRemainder {
  enum Tensors { kRounded, kRemainder, kInput };
};

struct JoinRemainder {
  enum Tensors { kOutput, kRounded, kRemainder };
};

// The bits of a float32 value, split into a bfloat16 and its remainder.
struct SplitBits {
  uint16_t rounded, remainder;
};

// Adds 1 to the upper half if the lower half is 2^15 or more. The result is the nearest bfloat16; for a tie,
// it is the value with the larger magnitude. NaN becomes the quiet NaN with the same sign and without a
// payload, whose lower half is zero.
static inline SplitBits split_bits(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) bits = (bits & 0x80000000u) | 0x7fc00000u;
  return {static_cast<uint16_t>((bits + 0x8000u) >> 16), static_cast<uint16_t>(bits)};
}

// Undoes `split_bits`.
static inline uint32_t join_bits(SplitBits bits) {
  return ((static_cast<uint32_t>(bits.rounded) - (bits.remainder >> 15)) << 16) | bits.remainder;
}

// Returns the scale of float16 states whose largest magnitude is `largest`. The scale is the smallest power
// of two for which the scaled states are at most half of float16's range, or 0 if all states are zero. With
// the highest power, infinity stays infinite and all finite values stay finite.
static inline float float16_scale(float largest) {
  union {
    float value;
    uint32_t bits;
  } scale = {largest / 32752.0f};
  constexpr uint32_t kHighest = (127u + 112u) << 23;
  scale.bits = (scale.bits + 0x7fffffu) & 0x7f800000u;
  if (scale.bits > kHighest) scale.bits = kHighest;
  return scale.value;
}

}  // namespace mtl

// Packs the operands of a matmul in the order in which its innermost loop reads them.
//
// Both operands are divided along their outer dimension (the left operand's rows, the right operand's
// columns) into panels of kLanes lanes. For each step of the inner dimension, a panel has 32 bits per lane: a
// float32 value, or two bfloat16 neighbours along the inner dimension, which processors multiply and add in
// pairs. Lanes and steps beyond the matrix are zeros. For tiles that read a row of the left operand at a time
// (kLeftByRow), each group of kLanes steps in a panel is transposed: kLanes steps of the first lane are
// followed by kLanes steps of the next lane.
#pragma once

#include "backends/cpu/simd/transpose.h"

namespace mtl {
namespace {

// Converts elements to 32-bit lanes. `elements` is how many elements remain along the inner dimension, and
// `lanes` how many lanes remain along the outer dimension. Lanes beyond the end are zero.
template <typename T>
struct Singles {
  using Element = T;
  static constexpr int kElements = 1;  // elements of the inner dimension per step

  // Returns one step for kLanes lanes. The lanes are neighbours in memory.
  MTL_INLINE VUint lanes_of_step(const T* first, int64_t, int64_t lanes, int64_t) {
    return float_to_bits(load_up_to(first, lanes));
  }
  // Returns kLanes steps of one lane. The steps are neighbours in memory.
  MTL_INLINE VUint steps_of_lane(const T* first, int64_t elements) {
    return float_to_bits(load_up_to(first, elements));
  }
};

struct BFloat16Pairs {
  using Element = bfloat16;
  static constexpr int kElements = 2;

  MTL_INLINE VUint lanes_of_step(const bfloat16* first, int64_t stride, int64_t lanes, int64_t elements) {
    const VUint low = elements > 0 ? halves(first, lanes) : VUint{};
    return elements > 1 ? low | halves(first + stride, lanes) << 16 : low;
  }
  MTL_INLINE VUint steps_of_lane(const bfloat16* first, int64_t elements) {
    if (__builtin_expect(elements >= 2 * kLanes, 1)) return *reinterpret_cast<const VUintU*>(first);
    VUint steps = {};
    for (int64_t i = 0; i < elements; ++i) steps[i / 2] |= static_cast<uint32_t>(first[i].bits) << (i % 2 * 16);
    return steps;
  }

 private:
  MTL_INLINE VUint halves(const bfloat16* first, int64_t lanes) {
    if (__builtin_expect(lanes >= kLanes, 1)) return widen(*reinterpret_cast<const VHalfU*>(first));
    VUint values = {};
    for (int64_t lane = 0; lane < lanes; ++lane) values[lane] = first[lane].bits;
    return values;
  }
};

// A matrix in memory. `at` returns the address of an element, given its lane and its index along the inner
// dimension.
template <typename T>
struct StoredOperand {
  const T* data;
  int64_t lane_stride, inner_stride;  // one stride is 1
  int64_t lanes, inner;

  const T* at(int64_t lane, int64_t index) const { return data + lane * lane_stride + index * inner_stride; }
};

// Returns true if tiles can read an operand directly from memory, without packing. This is possible if the
// steps of a lane are in memory as in a panel, with 32 bits for each step, and if all tiles are full along
// the inner dimension. Tiles that read rows (kLeftByRow) also need complete panels of lanes.
template <typename Lanes, typename T>
MTL_INLINE bool holds_steps(const StoredOperand<T>& operand) {
  return sizeof(T) * Lanes::kElements == 4 && operand.inner_stride == 1 && operand.lane_stride % Lanes::kElements == 0 &&
         operand.inner % (Lanes::kElements * Lanes::kStepMultiple) == 0 &&
         (!Lanes::kLeftByRow || operand.lanes % kLanes == 0);
}

template <typename Lanes>
MTL_INLINE int64_t num_steps(int64_t inner) {
  return round_up(divide_up(inner, Lanes::kElements), Lanes::kStepMultiple);
}

// A range of steps in a range of an operand's panels, and the memory into which they are packed.
template <typename T>
struct PackedPart {
  const StoredOperand<T>& operand;
  int64_t first_panel, last_panel;
  int64_t first_step, last_step;
  VUint* packed;         // destination of the first step of the first panel
  int64_t panel_length;  // from one panel to the next, in vectors
};

// Packs kLanes steps of one panel: step by step for all lanes, or lane by lane if kByRow is true. The steps
// of a lane must be neighbours in memory. Only `count` of the steps are written.
template <typename Lanes, bool kByRow, typename T>
MTL_INLINE void pack_neighbouring_steps(const StoredOperand<T>& operand, int64_t panel, int64_t step, int64_t count,
                                        VUint* packed) {
  const int64_t first_lane = panel * kLanes, lanes = operand.lanes - first_lane, inner = step * Lanes::kElements;
  VUint rows[kLanes];
#pragma GCC unroll 16
  for (int lane = 0; lane < kLanes; ++lane) {
    rows[lane] = lane < lanes ? Lanes::steps_of_lane(operand.at(first_lane + lane, inner), operand.inner - inner)
                              : VUint{};
  }
  if constexpr (!kByRow) transpose(rows);
  if (__builtin_expect(count == kLanes, 1)) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) packed[i] = rows[i];
  } else {
    for (int64_t i = 0; i < count; ++i) packed[i] = rows[i];
  }
}

// Returns one step of a panel. The operand's lanes must be neighbours in memory.
template <typename Lanes, typename T>
MTL_INLINE VUint step_of_panel(const StoredOperand<T>& operand, int64_t panel, int64_t step) {
  const int64_t lane = panel * kLanes, inner = step * Lanes::kElements;
  return Lanes::lanes_of_step(operand.at(lane, inner), operand.inner_stride, operand.lanes - lane, operand.inner - inner);
}

// The number of panels that are packed together if their lanes are neighbours in memory. Packing them
// together reads complete cache lines, in few streams: with vectors of 64 bytes, 256 bytes of a row at a
// time. (Measured on Sapphire Rapids: with 128 bytes of bfloat16, weight gradients take 1.03 times as long.)
template <typename T>
constexpr int64_t kPanelsTogether = 16 / sizeof(T);

template <typename Lanes, bool kByRow, typename T>
void pack(const PackedPart<T>& part) {
  const StoredOperand<T>& operand = part.operand;
  if (operand.lane_stride != 1) {
    for (int64_t panel = part.first_panel; panel < part.last_panel; ++panel) {
      VUint* const packed = part.packed + (panel - part.first_panel) * part.panel_length;
      for (int64_t step = part.first_step; step < part.last_step; step += kLanes) {
        pack_neighbouring_steps<Lanes, kByRow>(operand, panel, step, smaller(kLanes, part.last_step - step),
                                               packed + step - part.first_step);
      }
    }
    return;
  }
  for (int64_t first = part.first_panel; first < part.last_panel; first += kPanelsTogether<T>) {
    const int64_t last = smaller(first + kPanelsTogether<T>, part.last_panel);
    VUint* const packed = part.packed + (first - part.first_panel) * part.panel_length;
    if constexpr (kByRow) {
      for (int64_t step = part.first_step; step < part.last_step; step += kLanes) {
        for (int64_t panel = first; panel < last; ++panel) {
          VUint steps[kLanes];
#pragma GCC unroll 16
          for (int i = 0; i < kLanes; ++i) steps[i] = step_of_panel<Lanes>(operand, panel, step + i);
          transpose(steps);
          VUint* const of_panel = packed + (panel - first) * part.panel_length + step - part.first_step;
#pragma GCC unroll 16
          for (int i = 0; i < kLanes; ++i) of_panel[i] = steps[i];
        }
      }
    } else {
      for (int64_t step = part.first_step; step < part.last_step; ++step) {
        for (int64_t panel = first; panel < last; ++panel) {
          packed[(panel - first) * part.panel_length + step - part.first_step] = step_of_panel<Lanes>(operand, panel, step);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mtl

// The transpose of a block in registers.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

// Exchanges lane `i + kHalf` of row `i` with lane `i` of row `i + kHalf`, in all square blocks of `2 * kHalf`
// rows.
template <int kHalf>
MTL_INLINE void exchange_halves(VUint* rows) {
  const auto upper = lane_order([](int lane) { return (lane & kHalf) != 0 ? kLanes + lane - kHalf : lane; });
  const auto lower = lane_order([](int lane) { return (lane & kHalf) != 0 ? kLanes + lane : lane + kHalf; });
#pragma GCC unroll 16
  for (int row = 0; row < kLanes; ++row) {
    if ((row & kHalf) != 0) continue;
    const VUint high = rows[row], low = rows[row + kHalf];
    rows[row] = shuffle(high, low, upper);
    rows[row + kHalf] = shuffle(high, low, lower);
  }
}

// Transposes kLanes rows of kLanes words.
MTL_INLINE void transpose(VUint* rows) {
  if constexpr (kLanes >= 16) exchange_halves<8>(rows);
  if constexpr (kLanes >= 8) exchange_halves<4>(rows);
  exchange_halves<2>(rows);
  exchange_halves<1>(rows);
}

}  // namespace
}  // namespace mtl

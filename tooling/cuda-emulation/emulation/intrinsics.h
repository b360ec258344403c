// CUDA C++'s additions to the language, for a host compiler: qualifiers, barriers, shuffles, votes, atomics,
// fast arithmetic. Names and meanings are the same as in CUDA. Undefined behaviour is reported as an error.
#pragma once

#include <cmath>
#include <cstring>

#include "emulation/block.h"
#include "emulation/numbers.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)

using dim3 = mtl::emulation::Dimensions;

// --- barriers

#define MTL_SITE_PARAMETERS const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(MTL_SITE_PARAMETERS) { mtl::emulation::wait_at_barrier(0, 0, {"__syncthreads", file, line}); }

inline void __syncwarp(unsigned mask = 0xffffffffu, MTL_SITE_PARAMETERS) {
  mtl::emulation::meet_in_warp(mask, nullptr, [](auto, uint32_t) {}, {"__syncwarp", file, line});
}

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

// --- shuffles, votes and sums of a warp

namespace mtl::emulation {

template <typename T>
struct Shuffle {
  T value;
  int source;  // lane
  T result;
};

template <typename T>
T shuffle(unsigned mask, T value, int source, Site site) {
  if (source < 0 || source > 31 || (mask >> source & 1) == 0) fail(site, "lane %d is not in mask %08x", source, mask);
  Shuffle<T> mine = {value, source, value};
  meet_in_warp(
      mask, &mine,
      [](Payloads payloads, uint32_t mask) {
        for (int lane = 0; lane < 32; ++lane) {
          if ((mask >> lane & 1) == 0) continue;
          auto& to = *static_cast<Shuffle<T>*>(payloads[lane]);
          to.result = static_cast<Shuffle<T>*>(payloads[to.source])->value;
        }
      },
      site);
  return mine.result;
}

struct Vote {
  unsigned value, result;
};

// Gives every lane the result of `reduce` over the values of all lanes in the mask, combined in lane order.
template <unsigned (*reduce)(unsigned sum, unsigned value, int lane)>
unsigned vote(unsigned mask, unsigned first, unsigned value, Site site) {
  Vote mine = {value, first};
  meet_in_warp(
      mask, &mine,
      [](Payloads payloads, uint32_t mask) {
        for (int to = 0; to < 32; ++to) {
          if ((mask >> to & 1) == 0) continue;
          auto& vote = *static_cast<Vote*>(payloads[to]);
          for (int lane = 0; lane < 32; ++lane) {
            if (mask >> lane & 1) vote.result = reduce(vote.result, static_cast<Vote*>(payloads[lane])->value, lane);
          }
        }
      },
      site);
  return mine.result;
}

inline unsigned reduce_ballot(unsigned sum, unsigned value, int lane) { return sum | (value != 0 ? 1u << lane : 0u); }
inline unsigned reduce_add(unsigned sum, unsigned value, int) { return sum + value; }
inline unsigned reduce_or(unsigned sum, unsigned value, int) { return sum | value; }
inline unsigned reduce_and(unsigned sum, unsigned value, int) { return sum & value; }
inline unsigned reduce_max(unsigned sum, unsigned value, int) { return sum > value ? sum : value; }
inline unsigned reduce_min(unsigned sum, unsigned value, int) { return sum < value ? sum : value; }

}  // namespace mtl::emulation

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, MTL_SITE_PARAMETERS) {
  const int lane = mtl::emulation::lane();
  return mtl::emulation::shuffle(mask, value, (lane & ~(width - 1)) + (source & (width - 1)), {"__shfl_sync", file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, MTL_SITE_PARAMETERS) {
  const int lane = mtl::emulation::lane(), source = lane ^ lane_mask;
  const bool inside = (source & ~(width - 1)) <= (lane & ~(width - 1));
  return mtl::emulation::shuffle(mask, value, inside ? source : lane, {"__shfl_xor_sync", file, line});
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, MTL_SITE_PARAMETERS) {
  const int lane = mtl::emulation::lane();
  const bool inside = (lane & (width - 1)) + static_cast<int>(delta) < width;
  return mtl::emulation::shuffle(mask, value, inside ? lane + static_cast<int>(delta) : lane, {"__shfl_down_sync", file, line});
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, MTL_SITE_PARAMETERS) {
  const int lane = mtl::emulation::lane();
  const bool inside = (lane & (width - 1)) >= static_cast<int>(delta);
  return mtl::emulation::shuffle(mask, value, inside ? lane - static_cast<int>(delta) : lane, {"__shfl_up_sync", file, line});
}

inline unsigned __ballot_sync(unsigned mask, int predicate, MTL_SITE_PARAMETERS) {
  return mtl::emulation::vote<mtl::emulation::reduce_ballot>(mask, 0, predicate != 0, {"__ballot_sync", file, line});
}
inline int __any_sync(unsigned mask, int predicate, MTL_SITE_PARAMETERS) {
  return mtl::emulation::vote<mtl::emulation::reduce_or>(mask, 0, predicate != 0, {"__any_sync", file, line}) != 0;
}
inline int __all_sync(unsigned mask, int predicate, MTL_SITE_PARAMETERS) {
  return mtl::emulation::vote<mtl::emulation::reduce_and>(mask, 1, predicate != 0, {"__all_sync", file, line}) != 0;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value, MTL_SITE_PARAMETERS) {
  return mtl::emulation::vote<mtl::emulation::reduce_add>(mask, 0, value, {"__reduce_add_sync", file, line});
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value, MTL_SITE_PARAMETERS) {
  return mtl::emulation::vote<mtl::emulation::reduce_max>(mask, 0, value, {"__reduce_max_sync", file, line});
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value, MTL_SITE_PARAMETERS) {
  return mtl::emulation::vote<mtl::emulation::reduce_min>(mask, ~0u, value, {"__reduce_min_sync", file, line});
}

// --- atomics: one thread runs at a time

template <typename T>
T atomicAdd(T* address, T value) {
  const T before = *address;
  *address = before + value;
  return before;
}
template <typename T>
T atomicMax(T* address, T value) {
  const T before = *address;
  if (value > before) *address = value;
  return before;
}
template <typename T>
T atomicExch(T* address, T value) {
  const T before = *address;
  *address = value;
  return before;
}
template <typename T>
T atomicCAS(T* address, T compare, T value) {
  const T before = *address;
  if (before == compare) *address = value;
  return before;
}
inline unsigned atomicInc(unsigned* address, unsigned limit) {
  const unsigned before = *address;
  *address = before >= limit ? 0 : before + 1;
  return before;
}

// --- loads and stores with a cache hint

template <typename T> T __ldg(const T* address) { return *address; }
template <typename T> T __ldcs(const T* address) { return *address; }
template <typename T> T __ldcg(const T* address) { return *address; }
template <typename T> void __stcs(T* address, T value) { *address = value; }
template <typename T> void __stcg(T* address, T value) { *address = value; }

// --- arithmetic

inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz(static_cast<unsigned>(value)); }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }
inline double rsqrt(double value) { return 1.0 / std::sqrt(value); }
inline float __expf(float value) { return std::exp(value); }
inline float __logf(float value) { return std::log(value); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float value) { return 1.0f / value; }
inline float __fsqrt_rn(float value) { return std::sqrt(value); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __saturatef(float value) { return !(value > 0.0f) ? 0.0f : value > 1.0f ? 1.0f : value; }
// the results are volatile, because the compiler must not contract this operation with a neighbouring
// operation into a fused multiply-add
inline float __fadd_rn(float a, float b) { const volatile float sum = a + b; return sum; }
inline float __fmul_rn(float a, float b) { const volatile float product = a * b; return product; }

template <typename T> constexpr T min(T a, T b) { return b < a ? b : a; }
template <typename T> constexpr T max(T a, T b) { return a < b ? b : a; }

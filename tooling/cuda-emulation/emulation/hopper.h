// Emulates the functions of backends/cuda/instructions/hopper.h in @mtl/kernels without a GPU (see
// async_work.h). Only that header includes this file.
#pragma once

#include <type_traits>

#include "backends/cuda/instructions/hopper.h"
#include "emulation/async_work.h"

namespace mtl::cuda {

inline uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(static_cast<const unsigned char*>(shared) -
                               static_cast<const unsigned char*>(emulation::dynamic_shared()));
}

inline void set_up_barrier(uint64_t* barrier, int arrivals, MTL_SITE_PARAMETERS) {
  emulation::set_up_barrier(barrier, arrivals, {"mbarrier.init", file, line});
}
inline void publish_barriers() { emulation::publish_barriers(); }
inline void fence_async_proxy() { emulation::fence_async_proxy(); }
inline void arrive(uint64_t* barrier, MTL_SITE_PARAMETERS) { emulation::arrive_at(barrier, 0, {"mbarrier.arrive", file, line}); }
inline void arrive_expecting(uint64_t* barrier, int bytes, MTL_SITE_PARAMETERS) {
  emulation::arrive_at(barrier, bytes, {"mbarrier.arrive.expect_tx", file, line});
}
inline void wait_for_phase(uint64_t* barrier, int parity, int slot, MTL_SITE_PARAMETERS) {
  emulation::wait_for_phase(barrier, parity, slot, {"mbarrier.try_wait", file, line});
}
inline void copy_box(void* shared, const TensorMap& map, int x, int y, int z, uint64_t* barrier, MTL_SITE_PARAMETERS) {
  emulation::copy_box(shared, &map, {x, y, z}, barrier, {"cp.async.bulk.tensor", file, line});
}
inline void prefetch(const TensorMap&) {}
template <int count>
void give_registers_back(MTL_SITE_PARAMETERS) {
  emulation::change_registers(count, emulation::Registers::kGiveBack, {"setmaxnreg.dec", file, line});
}
template <int count>
void take_registers(MTL_SITE_PARAMETERS) {
  emulation::change_registers(count, emulation::Registers::kTake, {"setmaxnreg.inc", file, line});
}
inline void fence_wgmma(MTL_SITE_PARAMETERS) { emulation::fence_wgmma({"wgmma.fence", file, line}); }
inline void commit_wgmma(MTL_SITE_PARAMETERS) { emulation::commit_wgmma({"wgmma.commit_group", file, line}); }
template <int groups_left>
void wait_for_wgmma(MTL_SITE_PARAMETERS) {
  emulation::wait_for_wgmma(groups_left, {"wgmma.wait_group", file, line});
}
template <typename Register, int kRows>
void hold(Register (&)[kRows][4]) {}

template <typename T, int kColumns>
struct WarpGroupMatmul {
  static constexpr emulation::Operand kType =
      std::is_same_v<T, __nv_bfloat16> ? emulation::Operand::kBFloat16 : emulation::Operand::kHalf;

  static void by_rows(float (&d)[kColumns / 8][4], uint64_t a, uint64_t b, bool accumulate, MTL_SITE_PARAMETERS) {
    emulation::start_wgmma({kColumns, kType, accumulate, false, &d[0][0], nullptr, a, b}, {"wgmma", file, line});
  }
  static void by_columns(float (&d)[kColumns / 8][4], const uint32_t (&a)[4], uint64_t b, bool accumulate, MTL_SITE_PARAMETERS) {
    emulation::start_wgmma({kColumns, kType, accumulate, true, &d[0][0], a, 0, b}, {"wgmma", file, line});
  }
};

}  // namespace mtl::cuda

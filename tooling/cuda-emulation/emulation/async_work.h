// Work that is asynchronous to the threads of a block on Hopper: barriers that count arrivals and bytes
// (mbarrier), copies of boxes of a tensor (cp.async.bulk.tensor) and matmuls of warp groups (wgmma). Kernels
// use it through hopper.h.
//
// On a GPU, each of these happens at an undefined time between its start and the wait for it. Here the order
// of threads decides (set_order): ascending, everything happens immediately; descending, as late as possible;
// shuffled, at a random time. So a matmul that starts before its operands have arrived, or a tile that is
// released while a matmul reads it, gives wrong numbers (the target of a copy is NaN from its start on), and
// a phase that never ends is reported like any deadlock.
#pragma once

#include <cstdint>

#include "emulation/block.h"

namespace mtl::emulation {

// --- mbarrier

void set_up_barrier(uint64_t* barrier, int arrivals, Site site);
// fence.mbarrier_init: an initialized barrier may be used by other threads from here on. Fences the proxy,
// too.
void publish_barriers();
// fence.proxy.async: asynchronous work started later sees the stores of threads to shared memory. Without the
// fence, a matmul that reads such bytes is an error, and so is a copy that overwrites them.
void fence_async_proxy();
// One arrival, which makes the phase wait for `bytes` more bytes.
void arrive_at(uint64_t* barrier, int bytes, Site site);
// Waits until the phase of this parity is over: the barrier's current one has the other parity. slot: for the
// report on a phase that never ends.
void wait_for_phase(uint64_t* barrier, int parity, int slot, Site site);

// --- tensor maps and bulk copies

// The 128 bytes of a tensor map, as the emulated driver writes them: the innermost dimension first.
struct TensorMapFacts {
  static constexpr uint64_t kMagic = 0x70616d726f736e65;
  uint64_t magic;
  const unsigned char* data;
  uint64_t strides[2];  // bytes, of dimensions 1 and 2
  uint32_t dims[3], box[3];
  uint32_t element_bytes, swizzle_bytes;
};
static_assert(sizeof(TensorMapFacts) <= 128);

// Starts to copy the box at `place` to shared memory; zeros outside the tensor.
void copy_box(void* shared, const void* map, const int (&place)[3], uint64_t* barrier, Site site);

// --- matmuls of warp groups

enum class Operand { kBFloat16, kHalf };

// m64nNk16 as seen by one thread. A: its registers, or a descriptor if they are null.
struct WarpGroupMatmul {
  int columns;  // N
  Operand type;
  bool accumulate, transposed_b;  // transposed: along N in shared memory
  float* d;            // N / 2 registers
  const uint32_t* a;   // 4 registers, or null
  uint64_t a_matrix, b_matrix;
};

void fence_wgmma(Site site);
void start_wgmma(const WarpGroupMatmul& matmul, Site site);
void commit_wgmma(Site site);
// Waits until all but the newest `groups_left` groups of the warp are complete.
void wait_for_wgmma(int groups_left, Site site);

// --- registers of warp groups (setmaxnreg)

enum class Registers { kGiveBack, kTake };
// A thread has `count` registers from here on. If groups take more than others release, a GPU would wait:
// detected at the end of the block.
void change_registers(int count, Registers direction, Site site);

// --- for block.cc

// The work of one of the blocks that alternate, by its number.
void select_async_work(int resident);
void begin_async_work();
// Called when no thread can continue: executes deferred work; returns whether there was any.
bool do_async_work();
// The work left undone at the end of a block, or null.
const char* end_async_work();

}  // namespace mtl::emulation

// What runs asynchronously to the threads of a block on Hopper: barriers that count arrivals and bytes
// (mbarrier), copies of boxes of a tensor (cp.async.bulk.tensor) and matmuls of warp groups (wgmma). Kernels
// reach it through hopper.h.
//
// When each of these happens is undefined on a GPU, between its start and what waits for it. Here the order
// of threads decides (set_order): ascending, everything happens at once; descending, as late as it can;
// shuffled, each of it is drawn. So a matmul that starts before its operands have arrived, or a tile that is
// released while a matmul reads it, gives wrong numbers (the target of a copy is NaN from its start on),
// and a phase that never ends is reported like any deadlock.
#pragma once

#include <cstdint>

#include "emulation/block.h"

namespace mtl::emulation {

// --- mbarrier

void set_up_barrier(uint64_t* barrier, int arrivals, Site site);
// fence.mbarrier_init: a barrier that was set up may be used by others from here on.
void publish_barriers();
// One arrival, after which the phase waits for `bytes` more bytes.
void arrive_at(uint64_t* barrier, int bytes, Site site);
// Until the phase of this parity is over: the barrier's current one has the other parity.
void wait_for_phase(uint64_t* barrier, int parity, Site site);

// --- tensor maps and bulk copies

// What the emulated driver writes into the 128 bytes of a tensor map: the innermost dimension first.
struct TensorMapFacts {
  static constexpr uint64_t kMagic = 0x70616d726f736e65;
  uint64_t magic;
  const unsigned char* data;
  uint64_t strides[2];  // bytes, of dimensions 1 and 2
  uint32_t dims[3], box[3];
  uint32_t element_bytes, swizzle_bytes;
};
static_assert(sizeof(TensorMapFacts) <= 128);

// Starts to copy the box at `place` to shared memory; zeros where it is outside the tensor.
void copy_box(void* shared, const void* map, const int (&place)[3], uint64_t* barrier, Site site);

// --- matmuls of warp groups

enum class Operand { kBFloat16, kHalf };

// m64nNk16 as one thread sees it. A: its registers, or a descriptor where they are null.
struct WarpGroupMatmul {
  int columns;  // N
  Operand type;
  bool accumulate, transposed_b;
  float* d;            // N / 2 registers
  const uint32_t* a;   // 4 registers, or null
  uint64_t a_matrix, b_matrix;
};

void fence_wgmma(Site site);
void start_wgmma(const WarpGroupMatmul& matmul, Site site);
void commit_wgmma(Site site);
// Until all but the newest `groups_left` groups of the warp are done.
void wait_for_wgmma(int groups_left, Site site);

// --- registers of warp groups (setmaxnreg)

enum class Registers { kGiveBack, kTake };
// A thread has `count` registers from here on. What groups take in excess of what others give back, a GPU
// would wait for: found at the end of the block.
void change_registers(int count, Registers direction, Site site);

// --- for block.cc

void begin_async_work();
// Where no thread can run on: does what has been put off, and whether there was anything.
bool do_async_work();
// What is left undone at the end of a block, or null.
const char* end_async_work();

}  // namespace mtl::emulation

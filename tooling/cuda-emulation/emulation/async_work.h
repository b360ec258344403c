// Hopper's work that is asynchronous to the threads of a block: barriers that count arrivals and bytes
// (mbarrier), copies of boxes in a tensor (cp.async.bulk.tensor), and matmuls of warp groups (wgmma). Kernels
// use it through hopper.h. On a GPU, each operation happens at an undefined time between its start and the
// wait for it. In the emulation, this time depends on the order of threads (see set_order): an operation
// happens immediately in ascending order, as late as possible in descending order, and at a random time in
// shuffled order. So the emulation reveals a matmul that starts before its operands have arrived, or a tile
// that is released while a matmul reads it: the results are wrong, because the target of a copy is NaN until
// the copy happens. A phase that never ends is reported like any deadlock.
#pragma once

#include <cstdint>

#include "emulation/block.h"

namespace mtl::emulation {

// --- mbarrier

void set_up_barrier(uint64_t* barrier, int arrivals, Site site);
// Emulates fence.mbarrier_init: makes the barriers that the calling thread has initialized usable by all
// threads. Also acts as a proxy fence (see fence_async_proxy).
void publish_barriers();
// Emulates fence.proxy.async: makes the stores of threads to shared memory visible to asynchronous work that
// starts later. It is an error if a matmul reads, or a copy overwrites, bytes that were stored without this
// fence.
void fence_async_proxy();
// Arrives once at the barrier, and makes its current phase wait for `bytes` more bytes.
void arrive_at(uint64_t* barrier, int bytes, Site site);
// Waits until the phase with this parity is over, that is, until the barrier's current phase has the opposite
// parity. If a phase never ends, the report names `slot`.
void wait_for_phase(uint64_t* barrier, int parity, int slot, Site site);

// --- tensor maps and bulk copies

// The content of a tensor map (128 bytes), as the emulated driver writes it. The innermost dimension comes
// first.
struct TensorMapFacts {
  static constexpr uint64_t kMagic = 0x70616d726f736e65;
  uint64_t magic;
  const unsigned char* data;
  uint64_t strides[2];  // in bytes, of dimensions 1 and 2
  uint32_t dims[3], box[3];
  uint32_t element_bytes, swizzle_bytes;
};
static_assert(sizeof(TensorMapFacts) <= 128);

// Starts to copy the box at `place` to shared memory, with zeros for elements outside the tensor.
void copy_box(void* shared, const void* map, const int (&place)[3], uint64_t* barrier, Site site);

// --- matmuls of warp groups

enum class Operand { kBFloat16, kHalf };

// The matmul m64nNk16, from the view of one thread. Operand A is in registers or, if `a` is null, described
// by `a_matrix`.
struct WarpGroupMatmul {
  int columns;  // N
  Operand type;
  bool accumulate, transposed_b;  // transposed_b: rows of B in shared memory run along N
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
// Changes the thread's number of registers to `count`. If groups take more registers than have been released,
// a GPU would wait, but the emulation reports an error at the end of the block.
void change_registers(int count, Registers direction, Site site);

// --- for block.cc

// Selects the asynchronous work of the resident block with the given index.
void select_async_work(int resident);
void begin_async_work();
// Executes deferred work. Called when no thread can continue. Returns true if there was any work.
bool do_async_work();
// Returns a description of the work that was not finished at the end of a block, or null if there was none.
const char* end_async_work();

}  // namespace mtl::emulation

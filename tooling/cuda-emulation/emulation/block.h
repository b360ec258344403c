// Runs kernels without a GPU: one block after the other, its threads as fibers, each until it must wait for
// others. Only blocks that take tickets alternate: see take_ticket. Kernels never include this: they use
// intrinsics.h and ../instructions, which are built on it.
//
// Errors that it detects, each reported with the block, the thread and the line:
// - threads that wait for others that have ended or wait elsewhere (barriers, shuffles, votes, matrix
//   instructions);
// - uninitialized shared memory: every block starts with all of it NaN (0xff);
// - shared memory written beyond an array's end (AddressSanitizer detects reads, too);
// - more shared memory or threads than a block can have.
// A missing barrier shows when threads run in another order: see set_order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtl::emulation {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

struct Dimensions {
  unsigned x, y, z;
  constexpr Dimensions(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  uint64_t size() const { return uint64_t{x} * y * z; }
};

// The position of a thread in the kernel's source.
struct Site {
  const char* what;  // "__syncthreads"
  const char* file;
  int line;
};

// The order in which the blocks of a grid, the warps of a block and the threads of a warp run. A thread
// continues until it must wait, so in each order some threads are as far ahead of others as the barriers
// allow. Shuffled, warps also alternate at their shuffles and matrix instructions.
enum class Order { kAscending, kDescending, kShuffled };
void set_order(Order order, uint32_t seed = 0);

// Runs the kernel; false if an error was detected. At most one at a time.
bool run_grid(const char* kernel, Dimensions grid, Dimensions block, size_t dynamic_bytes, void (*body)(void*),
              void* argument);
// The error of the last run that failed; empty if none has failed since clear_error().
const char* error();
// The kernel that ran last, by the name in its launch.
const char* last_kernel();
void clear_error();

// --- for intrinsics, called by the running thread

// Marks the run as failed and abandons it: does not return.
[[noreturn]] void fail(Site site, const char* format, ...) __attribute__((format(printf, 2, 3)));
int lane();
int thread_number();  // in its block
// Tells whether asynchronous work (async_work.h) happens immediately; and which of `count` such items comes
// first.
bool happens_now();
uint32_t draw(uint32_t count);
// A phase of a barrier of Hopper, by the barrier's address in shared memory.
struct Event {
  const void* barrier;
  int slot, parity;
};
// Waits until another thread wakes the waiters of the barrier.
void wait_for_event(const Event& event, Site site);
void wake_waiters(const void* barrier);
// Increments a counter in global memory and returns its old value. The thread then lets other blocks run
// first, so that several blocks take tickets; a few blocks are resident at a time. In the ascending order of
// threads it never does; in the descending one always, and the block that has begun last runs as far as it
// can; in the shuffled one sometimes.
uint32_t take_ticket(uint32_t* counter, Site site);
// Waits until `num_threads` threads (0: all of the block) wait at barrier `barrier`.
void wait_at_barrier(int barrier, int num_threads, Site site);
// Arrives at the barrier without waiting.
void announce_at_barrier(int barrier, int num_threads, Site site);
// Waits until all lanes in `mask` have arrived with the same mask; the last one calls `complete` on the
// values of all.
using Payloads = void* const (&)[32];
void meet_in_warp(uint32_t mask, void* payload, void (*complete)(Payloads payloads, uint32_t mask), Site site);
// The block's copy of one declared array; `key` is the declaration. Same memory for every thread.
void* static_shared(const void* key, size_t bytes, size_t alignment);
void* dynamic_shared();
size_t dynamic_shared_bytes();
// Checks that all `bytes` are in the block's shared memory, and their alignment; for addresses of
// asynchronous copies and matrix loads.
void check_shared(const void* address, size_t bytes, size_t alignment, Site site);
// Asynchronous copies of the running thread: their targets are NaN until their group is waited for.
void queue_copy(void* shared, const void* global, size_t bytes, size_t valid_bytes, Site site);
void commit_copies();
void wait_for_copies(int groups_left);

}  // namespace mtl::emulation

// CUDA's names: set before a thread continues.
inline mtl::emulation::Index threadIdx, blockIdx;
inline mtl::emulation::Dimensions blockDim, gridDim;
constexpr int warpSize = 32;

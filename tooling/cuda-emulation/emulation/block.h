// Runs kernels without a GPU. Blocks run one after the other, except blocks that take tickets, which
// alternate (see take_ticket). The threads of a block are fibers. Each fiber runs until it must wait for
// other threads. Kernels never include this header. They use intrinsics.h and ../instructions, which are
// built on it. The following errors are detected and reported with the block, the thread and the line:
// - threads that wait for threads that have ended or wait elsewhere (barriers, shuffles, votes, matrix
//   instructions);
// - uninitialized shared memory: it is NaN (0xff) at the start of every block;
// - writes to shared memory beyond an array's end (AddressSanitizer also detects reads);
// - more shared memory or threads than a block can have.
// A missing barrier is detected when threads run in a different order (see set_order).
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

// A thread's position in the kernel's source.
struct Site {
  const char* what;  // "__syncthreads"
  const char* file;
  int line;
};

// The order in which the blocks of a grid, the warps of a block and the threads of a warp run. A thread
// continues until it must wait, so in each order some threads are as far ahead of others as the barriers
// allow. In shuffled order, warps also alternate at their shuffles and matrix instructions.
enum class Order { kAscending, kDescending, kShuffled };
void set_order(Order order, uint32_t seed = 0);

// Runs the kernel. Returns false if an error was detected. At most one kernel runs at a time.
bool run_grid(const char* kernel, Dimensions grid, Dimensions block, size_t dynamic_bytes, void (*body)(void*),
              void* argument);
// Returns the error of the last failed run. The string is empty if no run has failed since clear_error().
const char* error();
// Returns the name of the kernel that ran last, as written in the launch.
const char* last_kernel();
void clear_error();

// --- for intrinsics, called by the running thread

// Marks the run as failed and abandons it. Does not return.
[[noreturn]] void fail(Site site, const char* format, ...) __attribute__((format(printf, 2, 3)));
int lane();
int thread_number();  // in its block
// happens_now returns true if asynchronous work (see async_work.h) must happen immediately. draw returns the
// index, below `count`, of the pending item that must happen first.
bool happens_now();
uint32_t draw(uint32_t count);
// A phase of a Hopper barrier. `barrier` is the barrier's address in shared memory.
struct Event {
  const void* barrier;
  int slot, parity;
};
// Waits until a different thread wakes the waiters of the barrier.
void wait_for_event(const Event& event, Site site);
void wake_waiters(const void* barrier);
// Increments a counter in global memory and returns its old value (the ticket). The thread may then let other
// blocks run, so that several blocks take tickets. A few blocks are resident at a time. In ascending order of
// threads, the thread never lets other blocks run. In descending order, it always does, and the block that
// has begun last runs as far as it can. In shuffled order, it sometimes does.
uint32_t take_ticket(uint32_t* counter, Site site);
// Waits until `num_threads` threads (0: all threads of the block) wait at barrier `barrier`.
void wait_at_barrier(int barrier, int num_threads, Site site);
// Arrives at the barrier without waiting.
void announce_at_barrier(int barrier, int num_threads, Site site);
// Waits until all lanes in `mask` have arrived with the same mask. The last lane calls `complete` on the
// payloads of all lanes.
using Payloads = void* const (&)[32];
void meet_in_warp(uint32_t mask, void* payload, void (*complete)(Payloads payloads, uint32_t mask), Site site);
// Returns the block's copy of a declared array, which is the same memory for every thread. `key` identifies
// the declaration.
void* static_shared(const void* key, size_t bytes, size_t alignment);
void* dynamic_shared();
size_t dynamic_shared_bytes();
// Checks the address of an asynchronous copy or a matrix load: it must be aligned, and all `bytes` must be in
// the block's shared memory.
void check_shared(const void* address, size_t bytes, size_t alignment, Site site);
// Queues an asynchronous copy by the running thread. The copy's target is NaN until the thread has waited for
// the copy's group.
void queue_copy(void* shared, const void* global, size_t bytes, size_t valid_bytes, Site site);
void commit_copies();
void wait_for_copies(int groups_left);

}  // namespace mtl::emulation

// CUDA's built-in variables. They are set before a thread continues.
inline mtl::emulation::Index threadIdx, blockIdx;
inline mtl::emulation::Dimensions blockDim, gridDim;
constexpr int warpSize = 32;

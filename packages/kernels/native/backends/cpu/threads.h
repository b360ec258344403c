// The threads of CPU kernels. Each calling thread (worker threads may be ranks) has its own pool, which
// starts when it is first used. Kernels use threads only through this file.
#pragma once

#include <stdint.h>

#include "core/status.h"

namespace mtl {

// Returns how many threads a kernel of the calling thread may use, including the calling thread.
int num_threads();
// Returns the most threads that set_num_threads accepts.
int most_threads();
// Sets the number of threads for kernels of the calling thread, and for oneDNN. With `pin`, thread i > 0
// stays on the i-th core of the process.
Status set_num_threads(int num_threads, bool pin);

// Calls body(context, i) for i from 0 to `count` - 1, each in its own thread if the pool has enough threads.
// Returns after all calls have returned; what they wrote is then visible to the caller. A nested call may
// request only one thread.
void run_on_threads(int count, void (*body)(const void* context, int thread), const void* context);

// The minimum number of elements for which several threads are used. For fewer elements, a single thread is
// faster, because waking more threads takes longer than the work.
constexpr int64_t kParallelElements = 16384;

// The anonymous namespace gives each instruction set its own copy of the following functions, as for the
// vectors in simd.h.
namespace {

#define MTL_INLINE static inline __attribute__((always_inline))

// Calls body(i) for i from 0 to `count` - 1, as `run_on_threads` does.
template <typename Body>
MTL_INLINE void on_threads(int count, const Body& body) {
  run_on_threads(
      count, [](const void* context, int thread) { (*static_cast<const Body*>(context))(thread); }, &body);
}

MTL_INLINE int threads_for(int64_t elements) { return elements >= kParallelElements ? num_threads() : 1; }

// Calls body(first, last) for equal ranges of [0, count), each in its own thread. `elements` is the total
// work, which determines the number of threads.
template <typename Body>
MTL_INLINE void for_ranges(int64_t count, int64_t elements, const Body& body) {
  const int threads = threads_for(elements);
  on_threads(threads, [&](int thread) { body(count * thread / threads, count * (thread + 1) / threads); });
}

// Calls body(i) for i from 0 to `count` - 1. Uses several threads if `elements`, the total work, is large
// enough.
template <typename Body>
MTL_INLINE void for_each(int64_t count, int64_t elements, const Body& body) {
  for_ranges(count, elements, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) body(i);
  });
}

// Hands out task indices: each call returns the next index, beginning with 0. Threads use it to take the next
// task when they are ready.
class TaskCounter {
 public:
  // Takes `chunk` numbers and returns the first.
  int64_t take(int64_t chunk = 1) { return __atomic_fetch_add(&next_, chunk, __ATOMIC_RELAXED); }

 private:
  int64_t next_ = 0;
};

// Calls body(task, thread) for `count` tasks whose work may be unequal. A thread takes `chunk` consecutive
// tasks at a time.
template <typename Body>
MTL_INLINE void for_tasks(int64_t count, int64_t chunk, int threads, const Body& body) {
  TaskCounter counter;
  TaskCounter* const next = &counter;
  on_threads(threads, [=, &body](int thread) {
    for (int64_t first = next->take(chunk); first < count; first = next->take(chunk)) {
      for (int64_t task = first; task < count && task < first + chunk; ++task) body(task, thread);
    }
  });
}

}  // namespace
}  // namespace mtl

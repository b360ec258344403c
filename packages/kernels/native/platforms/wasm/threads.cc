// A pool of threads. Each thread is an instance of the module on the same memory. JavaScript starts the
// threads, possibly late or never. Tasks are therefore not assigned to threads: the calling thread and all
// running threads take a call's next task until no task remains.
#include "backends/cpu/threads.h"

#include <atomic>

extern "C" {
// Imported from JavaScript: the number of the machine's processors, and a function that starts one more
// thread of the pool.
__attribute__((import_module("mtl"), import_name("num_processors"))) int mtl_num_processors();
__attribute__((import_module("mtl"), import_name("start_pool_thread"))) void mtl_start_pool_thread();
__attribute__((export_name("mtl_run_pool_thread"))) void mtl_run_pool_thread();
}

namespace mtl {
namespace {

constexpr int kMostThreads = 1024;

// The tasks of a call: the call's number, how many tasks it has, and the next task. They are in a single
// word, so that a late thread cannot take a task of a call that has ended.
struct Parts {
  uint32_t call;
  uint16_t count, next;
};
static_assert(sizeof(Parts) == sizeof(uint64_t));

std::atomic<Parts> parts{Parts{0, 0, 0}};
// The function that every task calls. It is written only while there is no task to take.
void (*call_body)(const void* context, int thread);
const void* call_context;
std::atomic<int32_t> num_finished{0};
// A copy of the call's number, on which sleeping threads wait.
std::atomic<int32_t> call_number{0};
std::atomic<int32_t> num_sleeping{0};

// How many times a thread polls before it sleeps. This takes some tens of microseconds, about the time
// between two operations of a step.
constexpr int kPolls = 20000;

int wanted_threads = 0;
int started_threads = 1;

// Takes and runs the call's tasks until none is left.
void run_parts() {
  Parts taken = parts.load();
  while (taken.next < taken.count) {
    const Parts rest = {taken.call, taken.count, static_cast<uint16_t>(taken.next + 1)};
    const auto body = call_body;
    const void* const context = call_context;
    if (!parts.compare_exchange_strong(taken, rest)) continue;
    body(context, taken.next);
    num_finished.fetch_add(1);
    taken = parts.load();
  }
}

void wait_while(std::atomic<int32_t>* word, int32_t value, int64_t nanoseconds) {
  __builtin_wasm_memory_atomic_wait32(reinterpret_cast<int32_t*>(word), value, nanoseconds);
}

}  // namespace

int num_threads() {
  if (wanted_threads == 0) wanted_threads = mtl_num_processors();
  return wanted_threads;
}

int most_threads() { return kMostThreads; }

void run_on_threads(int count, void (*body)(const void* context, int thread), const void* context) {
  if (count <= 1) {
    for (int thread = 0; thread < count; ++thread) body(context, thread);
    return;
  }
  for (; started_threads < count; ++started_threads) mtl_start_pool_thread();
  call_body = body;
  call_context = context;
  num_finished.store(0);
  const int32_t number = call_number.load() + 1;
  parts.store({static_cast<uint32_t>(number), static_cast<uint16_t>(count), 0});
  call_number.store(number);
  if (num_sleeping.load() > 0) __builtin_wasm_memory_atomic_notify(reinterpret_cast<int32_t*>(&call_number), ~0u);
  run_parts();
  int polls = 0;
  for (int32_t finished = num_finished.load(); finished < count; finished = num_finished.load()) {
    // if this thread sleeps, a thread that has lost its core gets a core back sooner
    if (++polls > kPolls) wait_while(&num_finished, finished, 50000);
  }
}

Status set_num_threads(int num_threads, bool) {
  if (num_threads < 1 || num_threads > kMostThreads) {
    return error_status("MTL_ARGUMENT", "%d threads asked for, expected 1 to %d", num_threads, kMostThreads);
  }
  wanted_threads = num_threads;
  return ok_status();
}

}  // namespace mtl

void mtl_run_pool_thread() {
  using namespace mtl;
  for (;;) {
    const int32_t seen = call_number.load();
    run_parts();
    int polls = 0;
    while (call_number.load() == seen && ++polls < kPolls) {
    }
    if (polls < kPolls) continue;
    num_sleeping.fetch_add(1);
    wait_while(&call_number, seen, -1);
    num_sleeping.fetch_sub(1);
  }
}

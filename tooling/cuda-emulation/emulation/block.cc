#include "emulation/block.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "emulation/async_work.h"
#include "emulation/counts.h"
#include "emulation/fiber.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace mtl::emulation {
namespace {

constexpr int kMaxThreads = 1024, kNumBarriers = 16;
constexpr size_t kSharedBytes = 227 << 10, kStaticBytes = 48 << 10;  // per block on an H100
constexpr size_t kDynamicAlignment = 1024;                           // of MTL_DYNAMIC_SHARED
constexpr size_t kRedZone = 64;                                      // after every array
constexpr unsigned char kPoison = 0xff;                              // NaN in every floating type
constexpr unsigned char kGuard = 0xa5;

enum class Wait { kNothing, kWarp, kBarrier, kEvent, kEnded };

struct Copy {
  void* to;
  const void* from;
  size_t bytes, valid_bytes;
  int group;
};

struct Thread {
  Fiber fiber;
  Index index;
  Wait wait;
  Site site;
  uint32_t mask;
  int barrier;
  Event event;
  std::vector<Copy> copies;
  int group;
};

struct Barrier {
  int arrived = 0, expected = 0;
  Site site;
};

// Lanes of a warp that have arrived, of those in the mask. Before the first arrival the other fields are
// meaningless.
struct Meeting {
  uint32_t mask = 0;
  int arrived = 0, expected = 0;
  Site site = {};
  void (*complete)(Payloads, uint32_t) = nullptr;
  void* payloads[32] = {};
};

struct Array {
  const void* key;
  unsigned char* data;
  size_t bytes;
};

struct Machine {
  std::vector<std::unique_ptr<Thread>> threads;
  int num_threads = 0, current = -1;
  Barrier barriers[kNumBarriers];
  std::vector<Meeting> meetings[kMaxThreads / 32];  // of each warp, one for every mask that it has used
  alignas(1024) unsigned char shared[2 * kSharedBytes];  // space for the red zones
  size_t shared_end = 0, static_bytes = 0, dynamic_bytes = 0;
  std::vector<Array> arrays;
  Order order = Order::kAscending;
  std::mt19937 random;
  const char* kernel = "";
  bool failed = false;
  std::string message;
};

Machine the_machine;

// Called at every step of every thread, like the following functions: inline.
inline Machine& machine() { return the_machine; }
inline Thread& current() { return *the_machine.threads[the_machine.current]; }

std::string describe(Index index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

std::string describe(Site site) {
  const char* slash = std::strrchr(site.file, '/');
  return std::string(site.what) + " (" + (slash == nullptr ? site.file : slash + 1) + ":" + std::to_string(site.line) + ")";
}

// For messages of threads that end there: they own no memory, because an abandoned fiber is not unwound.
[[gnu::cold]] const char* name_of(Site site) {
  static char name[128];
  std::snprintf(name, sizeof name, "%s", describe(site).c_str());
  return name;
}

void record_failure(const std::string& what) {
  Machine& m = machine();
  if (!m.failed && m.message.empty()) m.message = std::string(m.kernel) + ", block " + describe(blockIdx) + ": " + what;
  m.failed = true;
}

std::vector<int> ordered(int count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (machine().order == Order::kDescending) std::reverse(order.begin(), order.end());
  if (machine().order == Order::kShuffled) std::shuffle(order.begin(), order.end(), machine().random);
  return order;
}

// --- shared memory

void set_guard(unsigned char* data) {
  std::memset(data, kGuard, kRedZone);
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(data, kRedZone);
#endif
}

unsigned char* add_array(const void* key, size_t bytes, size_t alignment) {
  Machine& m = machine();
  unsigned char* data = m.shared + (m.shared_end + alignment - 1) / alignment * alignment;
  m.arrays.push_back({key, data, bytes});
  set_guard(data + bytes);
  m.shared_end = static_cast<size_t>(data - m.shared) + bytes + kRedZone;
  return data;
}

void begin_shared(size_t dynamic_bytes) {
  Machine& m = machine();
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(m.shared, sizeof m.shared);
#endif
  std::memset(m.shared, kPoison, m.shared_end == 0 ? sizeof m.shared : m.shared_end);
  m.arrays.clear();
  m.shared_end = m.static_bytes = 0;
  m.dynamic_bytes = dynamic_bytes;
  add_array(nullptr, dynamic_bytes, kDynamicAlignment);
}

void end_shared() {
  Machine& m = machine();
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(m.shared, sizeof m.shared);
#endif
  for (const Array& array : m.arrays) {
    for (size_t byte = 0; byte < kRedZone; ++byte) {
      if (array.data[array.bytes + byte] == kGuard) continue;
      record_failure((array.key == nullptr ? "the dynamic shared memory of " : "a shared array of ") +
                     std::to_string(array.bytes) + " bytes was written beyond its end, at byte " +
                     std::to_string(array.bytes + byte));
      break;
    }
  }
}

// --- threads

struct Body {
  void (*function)(void*);
  void* argument;
};
Body kernel_body;

void finish_copies(Thread& thread, int groups_left) {
  const int first_kept = thread.group - groups_left;
  size_t kept = 0;
  for (const Copy& copy : thread.copies) {
    if (copy.group >= first_kept) {
      thread.copies[kept++] = copy;
      continue;
    }
    std::memcpy(copy.to, copy.from, copy.valid_bytes);
    std::memset(static_cast<unsigned char*>(copy.to) + copy.valid_bytes, 0, copy.bytes - copy.valid_bytes);
  }
  thread.copies.resize(kept);
}

void run_thread(void*) {
  kernel_body.function(kernel_body.argument);
  current().wait = Wait::kEnded;
}

// Suspends the running thread until another one resets its state.
void wait(Wait what, Site site) {
  Thread& self = current();
  self.wait = what;
  self.site = site;
  Fiber::yield();
}

void report_deadlock() {
  Machine& m = machine();
  std::string message = "threads wait for others that never come:";
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (int number = 0; number < m.num_threads; ++number) {
    const Thread& thread = *m.threads[number];
    std::string where = thread.wait == Wait::kEnded ? "ended" : "at " + describe(thread.site);
    if (thread.wait == Wait::kWarp) {
      char mask[32];
      std::snprintf(mask, sizeof mask, ", lanes %08x", thread.mask);
      where += mask;
    }
    if (thread.wait == Wait::kEvent) {
      where += ", slot " + std::to_string(thread.event.slot) + ", parity " + std::to_string(thread.event.parity) + ", byte " +
               std::to_string(static_cast<const unsigned char*>(thread.event.barrier) - m.shared) + " of shared memory";
    }
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& other) { return other.first == where; });
    if (group == groups.end()) group = groups.insert(groups.end(), {where, {}});
    group->second.push_back(number);
  }
  for (const auto& [where, numbers] : groups) {
    message += "\n    " + std::to_string(numbers.size()) + " " + where + ", the first of them thread " +
               describe(m.threads[numbers.front()]->index);
  }
  record_failure(message);
}

// Runs each runnable thread of a warp until it must wait; returns whether there was one.
bool run_warp(int warp, const std::vector<int>& lanes) {
  Machine& m = machine();
  bool progress = false;
  for (const int lane : lanes) {
    const int number = warp * 32 + lane;
    if (number >= m.num_threads || m.threads[number]->wait != Wait::kNothing || m.failed) continue;
    m.current = number;
    threadIdx = m.threads[number]->index;
    m.threads[number]->fiber.resume();
    progress = true;
  }
  return progress;
}

bool all_ended() {
  Machine& m = machine();
  const auto ended = [](const auto& thread) { return thread->wait == Wait::kEnded; };
  return std::all_of(m.threads.begin(), m.threads.begin() + m.num_threads, ended);
}

void run_block() {
  Machine& m = machine();
  for (Barrier& barrier : m.barriers) barrier.arrived = 0;
  for (auto& of_warp : m.meetings) of_warp.clear();
  begin_async_work();
  for (int number = 0; number < m.num_threads; ++number) {
    Thread& thread = *m.threads[number];
    const unsigned n = static_cast<unsigned>(number);
    thread.index = {n % blockDim.x, n / blockDim.x % blockDim.y, n / (blockDim.x * blockDim.y)};
    thread.wait = Wait::kNothing;
    thread.copies.clear();
    thread.group = 0;
    thread.fiber.start(run_thread, nullptr);
  }
  const bool shuffled = m.order == Order::kShuffled;
  const std::vector<int> lanes = ordered(32);
  // Runs the threads of one warp until all wait for other warps, then the next warp; when shuffled, sometimes
  // earlier.
  for (bool progress = true; progress && !m.failed;) {
    progress = false;
    for (const int warp : ordered((m.num_threads + 31) / 32)) {
      bool warp_progress = true;
      do {
        warp_progress = run_warp(warp, lanes);
        progress |= warp_progress;
      } while (warp_progress && !m.failed && !(shuffled && m.random() % 4 == 0));
    }
    // work that a block leaves behind is not executed: no thread would wait for it on a GPU either
    progress = progress || (!all_ended() && do_async_work());
  }
  m.current = -1;
  if (!m.failed && !all_ended()) report_deadlock();
  const char* const undone = m.failed ? nullptr : end_async_work();
  if (undone != nullptr) record_failure(undone);
}

[[gnu::cold]] Meeting& add_meeting(std::vector<Meeting>& met, uint32_t mask) {
  met.emplace_back();
  met.back().mask = mask;
  met.back().expected = __builtin_popcount(mask);
  return met.back();
}

Meeting& meeting_of(int warp, uint32_t mask) {
  std::vector<Meeting>& met = machine().meetings[warp];
  for (Meeting& meeting : met) {
    if (meeting.mask == mask) return meeting;
  }
  return add_meeting(met, mask);
}

bool check_launch(Dimensions grid, Dimensions block, size_t dynamic_bytes) {
  if (block.size() == 0 || block.size() > kMaxThreads || block.z > 64 || grid.size() == 0 || grid.x > 0x7fffffffu ||
      grid.y > 65535 || grid.z > 65535) {
    record_failure("a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
                   std::to_string(grid.z) + " blocks of " + std::to_string(block.size()) + " threads cannot be launched");
  } else if (dynamic_bytes > kSharedBytes) {
    record_failure(std::to_string(dynamic_bytes) + " bytes of dynamic shared memory, at most " +
                   std::to_string(kSharedBytes));
  }
  return !machine().failed;
}

// Counts the running thread at a barrier, which the last one ends for those that wait there.
bool is_last_at_barrier(int number, int num_threads, Site site) {
  Machine& m = machine();
  const int expected = num_threads == 0 ? m.num_threads : num_threads;
  if (number < 0 || number >= kNumBarriers) fail(site, "barrier %d, there are %d", number, kNumBarriers);
  if (num_threads % 32 != 0) fail(site, "a barrier of %d threads, which is not whole warps", num_threads);
  Barrier& barrier = m.barriers[number];
  if (barrier.arrived > 0 && barrier.expected != expected) {
    fail(site, "a barrier of %d threads here, of %d at %s", expected, barrier.expected, name_of(barrier.site));
  }
  // Legal on a GPU for barriers that count threads, but always an error where all threads of the block meet.
  if (barrier.arrived > 0 && num_threads == 0 && barrier.site.line != site.line) {
    fail(site, "other threads wait at another barrier, %s", name_of(barrier.site));
  }
  barrier.expected = expected;
  barrier.site = site;
  if (++barrier.arrived < expected) return false;
  barrier.arrived = 0;
  for (int other = 0; other < m.num_threads; ++other) {
    Thread& thread = *m.threads[other];
    if (thread.wait == Wait::kBarrier && thread.barrier == number) thread.wait = Wait::kNothing;
  }
  return true;
}

}  // namespace

void set_order(Order order, uint32_t seed) {
  machine().order = order;
  machine().random.seed(seed);
}

const char* last_kernel() { return machine().kernel; }
const char* error() { return machine().message.c_str(); }
void clear_error() { machine().message.clear(); }

bool run_grid(const char* kernel, Dimensions grid, Dimensions block, size_t dynamic_bytes, void (*body)(void*),
              void* argument) {
  Machine& m = machine();
  m.kernel = kernel;
  m.failed = false;
  blockIdx = {};
  if (!check_launch(grid, block, dynamic_bytes)) return false;
  gridDim = grid;
  blockDim = block;
  kernel_body = {body, argument};
  m.num_threads = static_cast<int>(block.size());
  while (m.threads.size() < block.size()) m.threads.push_back(std::make_unique<Thread>());
  for (const int number : ordered(static_cast<int>(grid.size()))) {
    const unsigned n = static_cast<unsigned>(number);
    blockIdx = {n % grid.x, n / grid.x % grid.y, n / (grid.x * grid.y)};
    begin_shared(dynamic_bytes);
    run_block();
    end_shared();
    if (m.failed) return false;
  }
  return true;
}

void fail(Site site, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  record_failure("thread " + describe(threadIdx) + " at " + describe(site) + ": " + text);
  for (;;) Fiber::yield();  // the block is abandoned and never resumed
}

int lane() { return machine().current % 32; }
int thread_number() { return machine().current; }

bool happens_now() {
  Machine& m = machine();
  return m.order == Order::kAscending || (m.order == Order::kShuffled && m.random() % 2 == 0);
}

uint32_t draw(uint32_t count) { return machine().order == Order::kShuffled ? machine().random() % count : 0; }

void wait_for_event(const Event& event, Site site) {
  current().event = event;
  wait(Wait::kEvent, site);
}

void wake_waiters(const void* barrier) {
  Machine& m = machine();
  for (int number = 0; number < m.num_threads; ++number) {
    Thread& thread = *m.threads[number];
    if (thread.wait == Wait::kEvent && thread.event.barrier == barrier) thread.wait = Wait::kNothing;
  }
}

void wait_at_barrier(int number, int num_threads, Site site) {
  if (is_last_at_barrier(number, num_threads, site)) return;
  current().barrier = number;
  wait(Wait::kBarrier, site);
}

void announce_at_barrier(int number, int num_threads, Site site) {
  if (num_threads == 0) fail(site, "an arrival at a barrier whose threads are not counted");
  is_last_at_barrier(number, num_threads, site);
}

void meet_in_warp(uint32_t mask, void* payload, void (*complete)(Payloads, uint32_t), Site site) {
  Machine& m = machine();
  const int first = m.current / 32 * 32, mine = lane();
  if ((mask >> mine & 1) == 0) fail(site, "lane %d is not in its own mask %08x", mine, mask);
  if (m.num_threads - first < 32 && mask >> (m.num_threads - first) != 0) {
    fail(site, "mask %08x has lanes that do not exist", mask);
  }
  Meeting& meeting = meeting_of(first / 32, mask);
  if (meeting.arrived == 0) {
    meeting.complete = complete;
    meeting.site = site;
  } else if (meeting.complete != complete || meeting.site.line != site.line) {
    fail(site, "other lanes of mask %08x wait at %s", mask, name_of(meeting.site));
  }
  meeting.payloads[mine] = payload;
  if (++meeting.arrived < meeting.expected) {
    current().mask = mask;
    return wait(Wait::kWarp, site);
  }
  complete(meeting.payloads, mask);
  meeting.arrived = 0;
  for (int other = 0; other < 32; ++other) {
    if (mask >> other & 1) m.threads[first + other]->wait = Wait::kNothing;
  }
}

void* static_shared(const void* key, size_t bytes, size_t alignment) {
  Machine& m = machine();
  for (const Array& array : m.arrays) {
    if (array.key == key) return array.data;
  }
  m.static_bytes += bytes;
  const Site site = {"a shared array", "", 0};
  if (m.static_bytes > kStaticBytes) fail(site, "%zu bytes of static shared memory, at most %zu", m.static_bytes, kStaticBytes);
  // dynamic memory follows static memory, aligned; up to 48 KB of both need no request, and launch() decides
  // by the dynamic bytes alone
  const size_t all = (m.static_bytes + kDynamicAlignment - 1) / kDynamicAlignment * kDynamicAlignment + m.dynamic_bytes;
  const size_t limit = m.dynamic_bytes > kStaticBytes ? kSharedBytes : kStaticBytes;
  if (m.dynamic_bytes > 0 && all > limit) {
    fail(site, "%zu bytes of static and dynamic shared memory, at most %zu for a launch that asks as this one does", all, limit);
  }
  return add_array(key, bytes, std::max<size_t>(alignment, 16));
}

void* dynamic_shared() { return machine().shared; }
size_t dynamic_shared_bytes() { return machine().dynamic_bytes; }

void check_shared(const void* address, size_t bytes, size_t alignment, Site site) {
  const auto* first = static_cast<const unsigned char*>(address);
  if (reinterpret_cast<uintptr_t>(first) % alignment != 0) {
    fail(site, "an address in shared memory that is not aligned to %zu bytes", alignment);
  }
  for (const Array& array : machine().arrays) {
    if (first >= array.data && first + bytes <= array.data + array.bytes) return;
  }
  const unsigned char* shared = machine().shared;
  fail(site, "%zu bytes at offset %td, which are in no shared array (dynamic: %zu bytes)", bytes, first - shared,
       machine().dynamic_bytes);
}

void queue_copy(void* shared, const void* global, size_t bytes, size_t valid_bytes, Site site) {
  check_shared(shared, bytes, bytes, site);
  if (valid_bytes > 0 && reinterpret_cast<uintptr_t>(global) % bytes != 0) {
    fail(site, "an address in global memory that is not aligned to %zu bytes", bytes);
  }
  std::memset(shared, kPoison, bytes);
  Thread& self = current();
  self.copies.push_back({shared, global, bytes, valid_bytes, self.group});
}

void commit_copies() { ++current().group; }
void wait_for_copies(int groups_left) { finish_copies(current(), groups_left); }

}  // namespace mtl::emulation

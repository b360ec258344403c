#include "emulation/block.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>

#include "emulation/async_work.h"
#include "emulation/counts.h"
#include "emulation/describe.h"
#include "emulation/machine.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace mtl::emulation {
namespace {

// the shared memory of a block on an H100 unless the launch requests more
constexpr size_t kStaticBytes = 48 << 10;  
constexpr size_t kDynamicAlignment = 1024;  // of memory declared with MTL_DYNAMIC_SHARED
constexpr size_t kRedZone = 64;             // bytes after every array
constexpr unsigned char kPoison = 0xff;     // NaN in every floating type
constexpr unsigned char kGuard = 0xa5;

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
  Resident& b = block();
  unsigned char* data = b.shared + (b.shared_end + alignment - 1) / alignment * alignment;
  b.arrays.push_back({key, data, bytes});
  set_guard(data + bytes);
  b.shared_end = static_cast<size_t>(data - b.shared) + bytes + kRedZone;
  return data;
}

void begin_shared(size_t dynamic_bytes) {
  Resident& b = block();
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(b.shared, sizeof b.shared);
#endif
  std::memset(b.shared, kPoison, b.shared_end == 0 ? sizeof b.shared : b.shared_end);
  b.arrays.clear();
  b.shared_end = b.static_bytes = 0;
  b.dynamic_bytes = dynamic_bytes;
  add_array(nullptr, dynamic_bytes, kDynamicAlignment);
}

void end_shared() {
  Resident& b = block();
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(b.shared, sizeof b.shared);
#endif
  for (const Array& array : b.arrays) {
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

void report_deadlock() {
  Resident& b = block();
  std::string message = "threads wait for others that never come:";
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (int number = 0; number < b.num_threads; ++number) {
    const Thread& thread = *b.threads[number];
    std::string where = thread.wait == Wait::kEnded ? "ended" : "at " + describe(thread.site);
    if (thread.wait == Wait::kWarp) {
      char mask[32];
      std::snprintf(mask, sizeof mask, ", lanes %08x", thread.mask);
      where += mask;
    }
    if (thread.wait == Wait::kEvent) {
      where += ", slot " + std::to_string(thread.event.slot) + ", parity " + std::to_string(thread.event.parity) + ", byte " +
               std::to_string(static_cast<const unsigned char*>(thread.event.barrier) - b.shared) + " of shared memory";
    }
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& other) { return other.first == where; });
    if (group == groups.end()) group = groups.insert(groups.end(), {where, {}});
    group->second.push_back(number);
  }
  for (const auto& [where, numbers] : groups) {
    message += "\n    " + std::to_string(numbers.size()) + " " + where + ", the first is thread " +
               describe(b.threads[numbers.front()]->index);
  }
  record_failure(message);
}

// Runs each runnable thread of a warp until it must wait. Returns true if there was a runnable thread.
bool run_warp(int warp, const std::vector<int>& lanes) {
  Machine& m = machine();
  Resident& b = block();
  bool progress = false;
  for (const int lane : lanes) {
    const int number = warp * 32 + lane;
    if (number >= b.num_threads || b.threads[number]->wait != Wait::kNothing || m.failed) continue;
    b.current = number;
    threadIdx = b.threads[number]->index;
    b.threads[number]->fiber.resume();
    progress = true;
  }
  return progress;
}

bool all_ended() {
  Resident& b = block();
  const auto ended = [](const auto& thread) { return thread->wait == Wait::kEnded; };
  return std::all_of(b.threads.begin(), b.threads.begin() + b.num_threads, ended);
}

void begin_block() {
  Resident& b = block();
  for (Barrier& barrier : b.barriers) barrier.arrived = 0;
  for (auto& of_warp : b.meetings) of_warp.clear();
  begin_async_work();
  for (int number = 0; number < b.num_threads; ++number) {
    Thread& thread = *b.threads[number];
    const unsigned n = static_cast<unsigned>(number);
    thread.index = {n % blockDim.x, n / blockDim.x % blockDim.y, n / (blockDim.x * blockDim.y)};
    thread.wait = Wait::kNothing;
    thread.copies.clear();
    thread.group = 0;
    thread.fiber.start(run_thread, nullptr);
  }
}

// Runs the threads of one warp until all of them wait for other warps, then runs the next warp. In shuffled
// order, it sometimes changes to another warp earlier. Returns when no thread of the block can continue.
void run_threads() {
  Machine& m = machine();
  const int num_warps = (block().num_threads + 31) / 32;
  const bool shuffled = m.order == Order::kShuffled;
  const std::vector<int> lanes = ordered(32);
  for (bool progress = true; progress && !m.failed;) {
    progress = false;
    for (const int warp : ordered(num_warps)) {
      bool warp_progress = true;
      do {
        warp_progress = run_warp(warp, lanes);
        progress |= warp_progress;
      } while (warp_progress && !m.failed && !(shuffled && m.random() % 4 == 0));
    }
    // pending work at the end of a block is not executed, because on a GPU no thread would wait for this work
    // either
    progress = progress || (!all_ended() && do_async_work());
  }
  block().current = -1;
}

// Wakes the threads that wait until other blocks than theirs have run.
void wake_after_other_blocks() {
  for (const auto& thread : block().threads) {
    if (thread->wait == Wait::kOtherBlocks) thread->wait = Wait::kNothing;
  }
}

bool waits_for_other_blocks() {
  const auto waits = [](const auto& thread) { return thread->wait == Wait::kOtherBlocks; };
  return std::any_of(block().threads.begin(), block().threads.begin() + block().num_threads, waits);
}

void end_block() {
  Machine& m = machine();
  if (!m.failed && !all_ended()) report_deadlock();
  const char* const undone = m.failed ? nullptr : end_async_work();
  if (undone != nullptr) record_failure(undone);
  end_shared();
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

// --- the blocks of a grid

// Makes `resident` the running block.
void enter(Resident& resident) {
  machine().running = &resident;
  blockIdx = resident.index;
  select_async_work(resident.slot);
}

// Puts a block into a free slot, and makes it the running block.
void start_block(int number, size_t dynamic_bytes, std::vector<Resident*>* residents) {
  const auto is_free = [&](const Resident& one) { return std::find(residents->begin(), residents->end(), &one) == residents->end(); };
  int slot = 0;
  while (machine().residents[slot] != nullptr && !is_free(*machine().residents[slot])) ++slot;
  std::unique_ptr<Resident>& resident = machine().residents[slot];
  if (resident == nullptr) resident = std::make_unique<Resident>();
  const unsigned n = static_cast<unsigned>(number);
  resident->index = {n % gridDim.x, n / gridDim.x % gridDim.y, n / (gridDim.x * gridDim.y)};
  resident->slot = slot;
  resident->num_threads = static_cast<int>(blockDim.size());
  while (resident->threads.size() < blockDim.size()) resident->threads.push_back(std::make_unique<Thread>());
  residents->push_back(resident.get());
  enter(*resident);
  begin_shared(dynamic_bytes);
  begin_block();
}

// Returns the block to run next: one in `residents`, or null to start a new block if any block has not
// started yet. Ascending order chooses the first resident in the grid. Descending order chooses the last
// resident, so that some blocks are as far ahead as possible. Shuffled order chooses any block.
Resident* choose_block(const std::vector<Resident*>& residents, bool is_one_left) {
  std::vector<Resident*> able = residents;
  if (is_one_left && able.size() < kMostResidents) able.push_back(nullptr);
  const Order order = machine().order;
  return order == Order::kAscending ? able.front() : order == Order::kDescending ? able.back() : able[draw(static_cast<uint32_t>(able.size()))];
}

// Runs all blocks of a grid, in the given order. A block runs until it ends, unless it lets other blocks run
// first.
void run_blocks(const std::vector<int>& order, size_t dynamic_bytes) {
  Machine& m = machine();
  std::vector<Resident*> residents;
  for (size_t next = 0; !m.failed && (next < order.size() || !residents.empty());) {
    Resident* const chosen = choose_block(residents, next < order.size());
    if (chosen == nullptr) {
      start_block(order[next++], dynamic_bytes, &residents);
    } else {
      enter(*chosen);
      wake_after_other_blocks();
    }
    Resident& running = block();
    run_threads();
    if (!m.failed && waits_for_other_blocks()) continue;
    end_block();
    residents.erase(std::find(residents.begin(), residents.end(), &running));
  }
}

}  // namespace

// Returns a description of `site` for messages. Messages allocate no memory, because an abandoned fiber would
// never free it.
[[gnu::cold]] const char* name_of(Site site) {
  static char name[128];
  std::snprintf(name, sizeof name, "%s", describe(site).c_str());
  return name;
}

void wait(Wait what, Site site) {
  Thread& self = current();
  self.wait = what;
  self.site = site;
  Fiber::yield();
}

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
  run_blocks(ordered(static_cast<int>(grid.size())), dynamic_bytes);
  return !m.failed;
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

int lane() { return block().current % 32; }
int thread_number() { return block().current; }

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
  Resident& b = block();
  for (int number = 0; number < b.num_threads; ++number) {
    Thread& thread = *b.threads[number];
    if (thread.wait == Wait::kEvent && thread.event.barrier == barrier) thread.wait = Wait::kNothing;
  }
}

uint32_t take_ticket(uint32_t* counter, Site site) {
  const uint32_t ticket = (*counter)++;
  if (!happens_now()) wait(Wait::kOtherBlocks, site);
  return ticket;
}

void* static_shared(const void* key, size_t bytes, size_t alignment) {
  Resident& b = block();
  for (const Array& array : b.arrays) {
    if (array.key == key) return array.data;
  }
  b.static_bytes += bytes;
  const Site site = {"a shared array", "", 0};
  if (b.static_bytes > kStaticBytes) fail(site, "%zu bytes of static shared memory, at most %zu", b.static_bytes, kStaticBytes);
  // dynamic memory follows static memory, aligned; on a GPU, a launch need not request a larger limit if both
  // together have at most 48 KB, but launch() checks only the dynamic bytes
  const size_t all = (b.static_bytes + kDynamicAlignment - 1) / kDynamicAlignment * kDynamicAlignment + b.dynamic_bytes;
  const size_t limit = b.dynamic_bytes > kStaticBytes ? kSharedBytes : kStaticBytes;
  if (b.dynamic_bytes > 0 && all > limit) {
    fail(site, "%zu bytes of static and dynamic shared memory, at most %zu for a launch that asks as this one does", all, limit);
  }
  return add_array(key, bytes, std::max<size_t>(alignment, 16));
}

void* dynamic_shared() { return block().shared; }
size_t dynamic_shared_bytes() { return block().dynamic_bytes; }

void check_shared(const void* address, size_t bytes, size_t alignment, Site site) {
  const auto* first = static_cast<const unsigned char*>(address);
  if (reinterpret_cast<uintptr_t>(first) % alignment != 0) {
    fail(site, "an address in shared memory that is not aligned to %zu bytes", alignment);
  }
  for (const Array& array : block().arrays) {
    if (first >= array.data && first + bytes <= array.data + array.bytes) return;
  }
  const unsigned char* shared = block().shared;
  fail(site, "%zu bytes at offset %td, which are in no shared array (dynamic: %zu bytes)", bytes, first - shared,
       block().dynamic_bytes);
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

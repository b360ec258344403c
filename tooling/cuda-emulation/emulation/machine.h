// The state of the running blocks and their threads, for block.cc and meetings.cc.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "emulation/block.h"
#include "emulation/fiber.h"

namespace mtl::emulation {

constexpr int kMaxThreads = 1024, kNumBarriers = 16;
constexpr size_t kSharedBytes = 227 << 10;  // per block on an H100
constexpr size_t kMostResidents = 4;        // blocks that have begun and not ended

enum class Wait { kNothing, kWarp, kBarrier, kEvent, kOtherBlocks, kEnded };

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

// The lanes in a mask that have arrived at a shuffle, vote or matrix instruction. Before the first arrival,
// all fields except `arrived` are meaningless.
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

// A block that runs, or that has begun and now lets other blocks run.
struct Resident {
  std::vector<std::unique_ptr<Thread>> threads;
  int num_threads = 0, current = -1;
  Index index;
  Barrier barriers[kNumBarriers];
  std::vector<Meeting> meetings[kMaxThreads / 32];  // of each warp, one for every mask that the warp has used
  alignas(1024) unsigned char shared[2 * kSharedBytes];  // twice the size, as space for the red zones
  size_t shared_end = 0, static_bytes = 0, dynamic_bytes = 0;
  std::vector<Array> arrays;
  int slot = 0;  // index among the residents
};

struct Machine {
  std::unique_ptr<Resident> residents[kMostResidents];
  Resident* running = nullptr;
  Order order = Order::kAscending;
  std::mt19937 random;
  const char* kernel = "";
  bool failed = false;
  std::string message;
};

inline Machine the_machine;

// the following functions are inline, because they are called at every step of every thread
inline Machine& machine() { return the_machine; }
inline Resident& block() { return *the_machine.running; }
inline Thread& current() { return *block().threads[block().current]; }

// Returns a description of `site`, for messages of threads that end.
const char* name_of(Site site);

// Suspends the running thread until a different thread resets its state.
void wait(Wait what, Site site);

}  // namespace mtl::emulation

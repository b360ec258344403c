// A counter in shared memory on which processes wait: they spin briefly, then sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/clock.h"
#include "core/status.h"
#include "platforms/platform.h"

namespace mtl::comm::local {

// The four accesses of waking and sleeping are sequentially consistent, which release and acquire cannot
// replace: a waker changes `value` and then reads `sleepers`, a sleeper changes `sleepers` and then the
// system reads `value`, and one of the two must see the change of the other.
struct alignas(64) SharedWord {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};  // a process killed while asleep stays counted, which costs needless wake-ups

  // Increments the word. Writes before this call are visible to a reader that sees the new value.
  void advance() {
    value.fetch_add(1);
    wake();
  }
  void wake() {
    if (sleepers.load() > 0) platform::wake_all(&value);
  }
};
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free &&
                  std::atomic<int32_t>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free,
              "atomics in shared memory need no lock of one process");

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

enum class WaitResult { kReached, kFailed, kTimedOut };

// Decides how long to spin: about 40 us, longer than a peer on another core needs for a small step. If other
// programs occupy the peers' cores, spinning does not help and is tried only occasionally. Spinning must
// always be short, because endless spinning at a real-time priority would block the awaited thread forever.
//
// Yielding (sched_yield) between spinning and sleeping was measured and does not help: with 8 ranks on 2 busy
// cores, the best time of a barrier fell from 35 to 22 us, but the median rose from 40 to 70 us; with 2
// ranks, nothing changed.
class Spinner {
 public:
  int num_spins() const { return failures_ < kPatience || failures_ % kPause == 0 ? kSpins : 0; }
  void succeeded() { failures_ = 0; }
  void failed() { ++failures_; }

 private:
  static constexpr int kSpins = 2000;
  static constexpr uint32_t kPatience = 4;
  static constexpr uint32_t kPause = 16;
  uint32_t failures_ = 0;
};

struct WaitLimits {
  int64_t deadline_ns = 0;
  Spinner* spinner = nullptr;  // null: sleep immediately
};

// Waits until `reached()` is true. The result of `reached()` depends on data that another thread writes
// before it advances `word`. `check()` is called at least every 50 ms. If it returns a failure, the wait ends
// and stores the failure in `failure`.
template <typename Reached, typename Check>
WaitResult wait_on(SharedWord* word, const WaitLimits& limits, const Reached& reached, const Check& check,
                   Status* failure) {
  constexpr int64_t kPollNs = 50 * kMillisecond;
  if (limits.spinner != nullptr) {
    for (int spin = limits.spinner->num_spins(); spin > 0; --spin) {
      if (reached()) {
        limits.spinner->succeeded();
        return WaitResult::kReached;
      }
      pause_briefly();
    }
    limits.spinner->failed();
  }
  for (;;) {
    const uint32_t seen = word->value.load();
    if (reached()) return WaitResult::kReached;
    *failure = check();
    // data that arrived before the failure is used: an operation that has all its data succeeds
    if (!failure->ok()) return reached() ? WaitResult::kReached : WaitResult::kFailed;
    const int64_t left = limits.deadline_ns - now_ns();
    if (left <= 0) return reached() ? WaitResult::kReached : WaitResult::kTimedOut;
    word->sleepers.fetch_add(1);
    platform::sleep_while(&word->value, seen, std::min(left, kPollNs));
    word->sleepers.fetch_sub(1);
  }
}

}  // namespace mtl::comm::local

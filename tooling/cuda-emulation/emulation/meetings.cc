// Barriers of a block, and operations that the lanes of a warp execute together.
#include "emulation/machine.h"

namespace mtl::emulation {
namespace {

[[gnu::cold]] Meeting& add_meeting(std::vector<Meeting>& met, uint32_t mask) {
  met.emplace_back();
  met.back().mask = mask;
  met.back().expected = __builtin_popcount(mask);
  return met.back();
}

Meeting& meeting_of(int warp, uint32_t mask) {
  std::vector<Meeting>& met = block().meetings[warp];
  for (Meeting& meeting : met) {
    if (meeting.mask == mask) return meeting;
  }
  return add_meeting(met, mask);
}

// Counts the running thread at a barrier. Returns true for the last thread to arrive, which releases the
// waiting threads.
bool is_last_at_barrier(int number, int num_threads, Site site) {
  Resident& b = block();
  const int expected = num_threads == 0 ? b.num_threads : num_threads;
  if (number < 0 || number >= kNumBarriers) fail(site, "barrier %d, there are %d", number, kNumBarriers);
  if (num_threads % 32 != 0) fail(site, "a barrier of %d threads, which is not whole warps", num_threads);
  Barrier& barrier = b.barriers[number];
  if (barrier.arrived > 0 && barrier.expected != expected) {
    fail(site, "a barrier of %d threads here, of %d at %s", expected, barrier.expected, name_of(barrier.site));
  }
  // A GPU allows threads to wait at different lines for barriers that count threads. For a barrier of all
  // threads in the block, this is always an error
  if (barrier.arrived > 0 && num_threads == 0 && barrier.site.line != site.line) {
    fail(site, "other threads wait at another barrier, %s", name_of(barrier.site));
  }
  barrier.expected = expected;
  barrier.site = site;
  if (++barrier.arrived < expected) return false;
  barrier.arrived = 0;
  for (int other = 0; other < b.num_threads; ++other) {
    Thread& thread = *b.threads[other];
    if (thread.wait == Wait::kBarrier && thread.barrier == number) thread.wait = Wait::kNothing;
  }
  return true;
}

}  // namespace

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
  Resident& b = block();
  const int first = b.current / 32 * 32, mine = lane();
  if ((mask >> mine & 1) == 0) fail(site, "lane %d is not in its own mask %08x", mine, mask);
  if (b.num_threads - first < 32 && mask >> (b.num_threads - first) != 0) {
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
    if (mask >> other & 1) b.threads[first + other]->wait = Wait::kNothing;
  }
}

}  // namespace mtl::emulation

// Times several ways to enqueue the same work in the compute stream.
#pragma once

#include <functional>

#include "core/status.h"

namespace mtl::cuda {

struct TimedCandidates {
  int fastest = -1;  // -1: all candidates were refused
  float milliseconds = 0.0f, first_milliseconds = 0.0f;  // of the fastest; of the first that was not refused
};

// Enqueues the work with the candidate of index `candidate`, or sets `is_refused` and enqueues nothing.
using EnqueueCandidate = std::function<Status(int candidate, bool* is_refused)>;

// Runs the work of every candidate several times, all candidates in turn, so that a change of the clock rate
// affects all candidates. The result is the first candidate that is not refused, unless a later candidate is
// faster by more than timings vary. Waits for the device.
Status time_candidates(int num_candidates, const EnqueueCandidate& enqueue, TimedCandidates* timed);

}  // namespace mtl::cuda

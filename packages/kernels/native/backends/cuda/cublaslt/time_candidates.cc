#include "backends/cuda/cublaslt/time_candidates.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cuda/runtime/device.h"

namespace mtl::cuda {
namespace {

constexpr int kNumRounds = 5;
// About how long a timing lasts, in milliseconds. Events have a resolution of half a microsecond.
constexpr float kMillisecondsOfTiming = 0.3f;
constexpr int kMostRuns = 20;
// An algorithm replaces the first one only if it is faster by at least this fraction. Medians of repeated
// measurements differ by less, and a smaller gain does not justify results with different bits.
constexpr float kLeastGain = 0.02f;

struct Candidate {
  int index;
  int runs = 1;  // per timing
  std::vector<float> milliseconds = {};
};

float median(std::vector<float> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

class Stopwatch {
 public:
  Stopwatch() = default;
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    for (const cudaEvent_t event : {start_, end_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  Status open() {
    MTL_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&start_, 0));
    MTL_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&end_, 0));
    return ok_status();
  }
  // Measures how many milliseconds a run of `candidate` takes. The candidate must already have run without
  // being refused.
  Status time(const Candidate& candidate, const EnqueueCandidate& enqueue, float* milliseconds) {
    MTL_RETURN_IF_CUDA_ERROR(cudaEventRecord(start_, compute_stream()));
    for (int run = 0; run < candidate.runs; ++run) {
      bool is_refused = false;
      MTL_RETURN_IF_ERROR(enqueue(candidate.index, &is_refused));
    }
    MTL_RETURN_IF_CUDA_ERROR(cudaEventRecord(end_, compute_stream()));
    MTL_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(end_));
    MTL_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(milliseconds, start_, end_));
    *milliseconds /= static_cast<float>(candidate.runs);
    return ok_status();
  }

 private:
  cudaEvent_t start_ = nullptr, end_ = nullptr;
};

}  // namespace

Status time_candidates(int num_candidates, const EnqueueCandidate& enqueue, TimedCandidates* timed) {
  *timed = {};
  std::vector<Candidate> candidates;
  for (int index = 0; index < num_candidates; ++index) {
    bool is_refused = false;
    MTL_RETURN_IF_ERROR(enqueue(index, &is_refused));  // also loads the candidate's kernel
    if (!is_refused) candidates.push_back({index});
  }
  if (candidates.empty()) return ok_status();
  Stopwatch stopwatch;
  MTL_RETURN_IF_ERROR(stopwatch.open());
  for (Candidate& candidate : candidates) {
    float once = 0.0f;
    MTL_RETURN_IF_ERROR(stopwatch.time(candidate, enqueue, &once));
    candidate.runs = static_cast<int>(
        std::clamp(kMillisecondsOfTiming / std::max(once, 1e-6f), 1.0f, static_cast<float>(kMostRuns)));
  }
  for (int round = 0; round < kNumRounds; ++round) {
    for (Candidate& candidate : candidates) {
      float milliseconds = 0.0f;
      MTL_RETURN_IF_ERROR(stopwatch.time(candidate, enqueue, &milliseconds));
      candidate.milliseconds.push_back(milliseconds);
    }
  }
  timed->fastest = candidates.front().index;
  timed->milliseconds = timed->first_milliseconds = median(candidates.front().milliseconds);
  for (const Candidate& candidate : candidates) {
    const float milliseconds = median(candidate.milliseconds);
    if (milliseconds >= timed->milliseconds || milliseconds > (1.0f - kLeastGain) * timed->first_milliseconds) continue;
    timed->fastest = candidate.index;
    timed->milliseconds = milliseconds;
  }
  return ok_status();
}

}  // namespace mtl::cuda

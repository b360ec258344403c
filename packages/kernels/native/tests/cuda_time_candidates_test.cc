// Finds the fastest of several candidates, by the times that work in an emulated stream declares.
#include <vector>

#include "backends/cuda/cublaslt/time_candidates.h"
#include "backends/cuda/loader/cuda_loader.h"
#include "emulation/stream.h"
#include "tests/cuda_for_tests.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

constexpr double kRefused = -1.0;

// Times candidates; run i of a candidate takes the i-th of its `milliseconds`, which repeat.
cuda::TimedCandidates timed_of(const std::vector<std::vector<double>>& milliseconds) {
  std::vector<size_t> runs(milliseconds.size(), 0);
  cuda::TimedCandidates timed;
  const auto enqueue = [&](int candidate, bool* is_refused) {
    const size_t index = static_cast<size_t>(candidate);
    const double taken = milliseconds[index][runs[index]++ % milliseconds[index].size()];
    *is_refused = taken == kRefused;
    if (*is_refused) return ok_status();
    const auto stream = static_cast<cudaStream_t>(cuda_device_api()->stream(MTL_STREAM_COMPUTE));
    emulation::enqueue(stream, [stream, taken] {
      stream->declared_ms += taken;
      return cudaSuccess;
    });
    return ok_status();
  };
  EXPECT(succeeded(cuda::time_candidates(static_cast<int>(milliseconds.size()), enqueue, &timed)));
  return timed;
}

bool is_near(float milliseconds, double expected) {
  // times are declared as doubles, and their measured differences are floats
  return milliseconds > expected * (1.0 - 1e-4) && milliseconds < expected * (1.0 + 1e-4);
}

MTL_TEST(the_fastest_candidate_is_found) {
  if (!is_linked_emulation_under_test()) return;
  const cuda::TimedCandidates timed = timed_of({{3.0}, {1.0}, {2.0}});
  EXPECT(timed.fastest == 1);
  EXPECT(is_near(timed.milliseconds, 1.0) && is_near(timed.first_milliseconds, 3.0));
}

MTL_TEST(the_first_candidate_stays_unless_another_is_clearly_faster) {
  if (!is_linked_emulation_under_test()) return;
  EXPECT(timed_of({{1.0}, {0.985}, {1.0}}).fastest == 0);
  EXPECT(timed_of({{1.0}, {0.97}, {0.975}}).fastest == 1);
}

MTL_TEST(refused_candidates_are_left_out) {
  if (!is_linked_emulation_under_test()) return;
  const cuda::TimedCandidates timed = timed_of({{kRefused}, {2.0}, {kRefused}, {1.0}});
  EXPECT(timed.fastest == 3);
  EXPECT(is_near(timed.first_milliseconds, 2.0));
  EXPECT(timed_of({{kRefused}, {kRefused}}).fastest == -1);
}

MTL_TEST(one_slow_run_of_a_candidate_does_not_count) {
  if (!is_linked_emulation_under_test()) return;
  // the fourth of seven runs takes long: one run loads the kernel, one sizes a timing, five are timed
  EXPECT(timed_of({{2.0}, {1.0, 1.0, 1.0, 9.0, 1.0, 1.0, 1.0}}).fastest == 1);
}

MTL_TEST(short_candidates_are_timed_in_many_runs) {
  if (!is_linked_emulation_under_test()) return;
  // a timing has 20 runs; their mean counts
  const cuda::TimedCandidates timed = timed_of({{0.01}, {0.004, 0.006}});
  EXPECT(timed.fastest == 1 && is_near(timed.milliseconds, 0.005));
}

}  // namespace
}  // namespace mtl::tests

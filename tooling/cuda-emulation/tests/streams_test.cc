// Tests of emulated streams with deferred work: code that does not wait for a stream, an event or another
// stream sees old data, and calls and accesses that a GPU would reject are rejected.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "backends/cuda/launch.h"
#include "emulation/pending_work.h"
#include "emulation/stream.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

using cuda::Launch;
using emulation::Pace;

// While it exists, streams execute work at the given pace. At its end the default pace is restored, in which
// the host may access device memory.
struct AtPace {
  explicit AtPace(Pace pace, uint32_t seed = 0) { emulation::set_pace(pace, seed); }
  ~AtPace() { emulation::set_pace(Pace::kAtOnce); }
};

struct Stream {
  Stream() { EXPECT(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess); }
  cudaStream_t stream = nullptr;
};
struct Event {
  Event() { EXPECT(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess); }
  ~Event() { EXPECT(cudaEventDestroy(event) == cudaSuccess); }
  cudaEvent_t event = nullptr;
};
// A number in device memory or pinned memory.
struct Number {
  explicit Number(bool is_pinned) : is_pinned(is_pinned) {
    void* taken = nullptr;
    EXPECT((is_pinned ? cudaMallocHost : cudaMalloc)(&taken, sizeof *data) == cudaSuccess);
    data = static_cast<float*>(taken);
  }
  ~Number() { EXPECT((is_pinned ? cudaFreeHost : cudaFree)(data) == cudaSuccess); }
  float* data;
  bool is_pinned;
};

__global__ void put(float* to, float value) {
  if (threadIdx.x == 0) *to = value;
}
__global__ void add(float* to, const float* from) {
  if (threadIdx.x == 0) *to += *from;
}
__global__ void fail_by_itself() {
  if (threadIdx.x == 0) return;
  __syncthreads();
}
__global__ void read_wide(float* to, const float* from) { *to = cuda::in_one_access<uint4>(from).x == 0 ? 0.0f : 1.0f; }
__global__ void much_shared(float* to) {
  MTL_SHARED(float, tile, [4096]);
  MTL_DYNAMIC_SHARED(bytes);
  tile[0] = 0.0f;
  bytes[0] = 0;
  *to = tile[0];
}

Launch in(const Stream& stream) { return {1, 32, 0, stream.stream}; }
bool copies(void* to, const void* from, cudaMemcpyKind kind, const Stream& stream) {
  return cudaMemcpyAsync(to, from, sizeof(float), kind, stream.stream) == cudaSuccess;
}

MTL_TEST(the_time_between_events_is_known_once_both_are_reached) {
  const AtPace late(Pace::kLate);
  const Stream stream;
  const Event without_time;
  cudaEvent_t first = nullptr, second = nullptr;
  for (cudaEvent_t* const event : {&first, &second}) {
    EXPECT(cudaEventCreateWithFlags(event, cudaEventDefault) == cudaSuccess);
    EXPECT(cudaEventRecord(*event, stream.stream) == cudaSuccess);
  }
  EXPECT(cudaEventRecord(without_time.event, stream.stream) == cudaSuccess);
  float milliseconds = -1.0f;
  EXPECT(cudaEventElapsedTime(&milliseconds, first, second) == cudaErrorNotReady && milliseconds == -1.0f);
  EXPECT(cudaStreamSynchronize(stream.stream) == cudaSuccess);
  EXPECT(cudaEventElapsedTime(&milliseconds, first, second) == cudaSuccess && milliseconds >= 0.0f);
  EXPECT(cudaEventElapsedTime(&milliseconds, first, without_time.event) == cudaErrorInvalidResourceHandle);
  for (const cudaEvent_t event : {first, second}) EXPECT(cudaEventDestroy(event) == cudaSuccess);
  cudaGetLastError();
}

MTL_TEST(work_that_declares_its_time_takes_it_by_events) {
  const AtPace late(Pace::kLate);
  const Stream stream;
  cudaEvent_t first = nullptr, second = nullptr, third = nullptr;
  for (cudaEvent_t* const event : {&first, &second, &third}) {
    EXPECT(cudaEventCreateWithFlags(event, cudaEventDefault) == cudaSuccess);
    EXPECT(cudaEventRecord(*event, stream.stream) == cudaSuccess);
    if (event != &first) continue;
    for (const double taken : {1000.0, 500.0}) {
      emulation::enqueue(stream.stream, [stream = stream.stream, taken] { return stream->declared_ms += taken, cudaSuccess; });
    }
  }
  EXPECT(cudaStreamSynchronize(stream.stream) == cudaSuccess);
  float milliseconds = 0.0f;
  EXPECT(cudaEventElapsedTime(&milliseconds, first, second) == cudaSuccess && milliseconds == 1500.0f);
  // if no work declares a time, it is the time between the events in the emulation
  EXPECT(cudaEventElapsedTime(&milliseconds, second, third) == cudaSuccess && milliseconds > 0.0f && milliseconds < 1000.0f);
  for (const cudaEvent_t event : {first, second, third}) EXPECT(cudaEventDestroy(event) == cudaSuccess);
}

MTL_TEST(deferred_work_is_done_when_a_thread_waits_for_it) {
  const AtPace late(Pace::kLate);
  const Stream stream, other;
  const Number value(false), host(true);
  const Event event;
  *host.data = -1.0f;
  EXPECT(cudaEventQuery(event.event) == cudaSuccess);  // an event that was never recorded counts as complete
  EXPECT(MTL_LAUNCH(put, in(stream), value.data, 3.0f) == cudaSuccess);
  EXPECT(copies(host.data, value.data, cudaMemcpyDeviceToHost, stream));
  EXPECT(cudaStreamSynchronize(other.stream) == cudaSuccess && *host.data == -1.0f);
  EXPECT(cudaEventRecord(event.event, stream.stream) == cudaSuccess);
  EXPECT(cudaEventQuery(event.event) == cudaErrorNotReady && cudaGetLastError() == cudaErrorNotReady);
  EXPECT(*host.data == -1.0f);
  EXPECT(cudaEventQuery(event.event) == cudaSuccess && *host.data == 3.0f);
  EXPECT(MTL_LAUNCH(put, in(stream), value.data, 4.0f) == cudaSuccess);
  EXPECT(copies(host.data, value.data, cudaMemcpyDeviceToHost, stream));
  EXPECT(*host.data == 3.0f && cudaStreamSynchronize(stream.stream) == cudaSuccess && *host.data == 4.0f);
}

// Returns the value that one stream reads while another stream writes it, without or with a wait. A GPU may
// execute the two in either order.
float read_by_other(bool waits, uint32_t seed) {
  const AtPace drawn(Pace::kDrawn, seed);
  static const Stream writer, reader;  // reused by all calls: the emulation has few streams, and never frees one
  const Number value(false), host(true);
  const Event written;
  EXPECT(cudaMemsetAsync(value.data, 0, sizeof(float), writer.stream) == cudaSuccess);
  EXPECT(cudaStreamSynchronize(writer.stream) == cudaSuccess);
  EXPECT(MTL_LAUNCH(put, in(writer), value.data, 5.0f) == cudaSuccess);
  EXPECT(cudaEventRecord(written.event, writer.stream) == cudaSuccess);
  if (waits) EXPECT(cudaStreamWaitEvent(reader.stream, written.event, 0) == cudaSuccess);
  EXPECT(copies(host.data, value.data, cudaMemcpyDeviceToHost, reader));
  EXPECT(cudaStreamSynchronize(reader.stream) == cudaSuccess);
  return *host.data;
}

MTL_TEST(streams_that_do_not_wait_for_each_other_run_in_any_order) {
  int num_early = 0;
  for (uint32_t seed = 0; seed < 32; ++seed) {
    EXPECT(read_by_other(true, seed) == 5.0f);
    const float read = read_by_other(false, seed);
    EXPECT(read == 5.0f || read == 0.0f);
    num_early += read == 0.0f ? 1 : 0;
  }
  EXPECT(num_early > 4 && num_early < 28);
}

MTL_TEST(a_stream_waits_for_an_event_as_it_was_recorded_then) {
  const AtPace late(Pace::kLate);
  const Stream writer, reader;
  const Number value(false), host(true);
  const Event event;
  EXPECT(MTL_LAUNCH(put, in(writer), value.data, 1.0f) == cudaSuccess);
  EXPECT(cudaEventRecord(event.event, writer.stream) == cudaSuccess);
  EXPECT(cudaStreamWaitEvent(reader.stream, event.event, 0) == cudaSuccess);
  EXPECT(copies(host.data, value.data, cudaMemcpyDeviceToHost, reader));
  EXPECT(MTL_LAUNCH(put, in(writer), value.data, 2.0f) == cudaSuccess);
  EXPECT(cudaEventRecord(event.event, writer.stream) == cudaSuccess);
  EXPECT(cudaStreamSynchronize(reader.stream) == cudaSuccess && *host.data == 1.0f);
  EXPECT(cudaEventSynchronize(event.event) == cudaSuccess);
}

MTL_TEST(graphs_that_are_gone_by_then_are_launched_all_the_same) {
  const AtPace late(Pace::kLate);
  const Stream stream;
  const Number value(false), host(true);
  EXPECT(MTL_LAUNCH(put, in(stream), value.data, 1.0f) == cudaSuccess);
  EXPECT(cudaStreamBeginCapture(stream.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  EXPECT(MTL_LAUNCH(add, in(stream), value.data, value.data) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  EXPECT(cudaStreamEndCapture(stream.stream, &graph) == cudaSuccess);
  EXPECT(cudaGraphInstantiate(&executable, graph) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
  EXPECT(cudaGraphLaunch(executable, stream.stream) == cudaSuccess);
  EXPECT(cudaGraphExecDestroy(executable) == cudaSuccess);
  EXPECT(copies(host.data, value.data, cudaMemcpyDeviceToHost, stream));
  EXPECT(cudaDeviceSynchronize() == cudaSuccess && *host.data == 2.0f);
}

MTL_TEST(a_kernel_that_fails_is_an_error_of_what_comes_behind_it) {
  {
    const AtPace late(Pace::kLate);
    const Stream stream;
    EXPECT(MTL_LAUNCH(fail_by_itself, in(stream)) == cudaSuccess);
    EXPECT(cudaStreamSynchronize(stream.stream) == cudaErrorLaunchFailure);
    EXPECT(MTL_LAUNCH(fail_by_itself, in(stream)) == cudaErrorLaunchFailure);
  }
  emulation::clear_error();
  cudaGetLastError();
}

MTL_TEST(pageable_memory_is_read_before_a_copy_returns_and_written_before_it_does) {
  const AtPace late(Pace::kLate);
  const Stream stream;
  const Number value(false);
  float source = 7.0f, result = 0.0f;
  EXPECT(copies(value.data, &source, cudaMemcpyHostToDevice, stream));
  source = 8.0f;
  EXPECT(copies(&result, value.data, cudaMemcpyDeviceToHost, stream) && result == 7.0f);
}

// Tells whether `body`, run in a separate process, ends without an error.
template <typename Body>
bool ends_well(const Body& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

MTL_TEST(the_host_cannot_touch_memory_of_the_device_or_memory_that_was_given_back) {
  const Number value(false);
  volatile float* const touched = value.data;
  EXPECT(ends_well([&] { *touched = 1.0f; }));  // work is executed immediately, as in tests of kernels
  const AtPace late(Pace::kLate);
  EXPECT(ends_well([] {}));
  EXPECT(!ends_well([&] { *touched = 1.0f; }));
  const Stream stream;
  EXPECT(!ends_well([&] {
    cudaFree(value.data);
    MTL_LAUNCH(put, in(stream), value.data, 1.0f);
    cudaDeviceSynchronize();
  }));
}

MTL_TEST(copies_that_a_driver_refuses_are_refused) {
  const Stream stream;
  const Number device(false), pinned(true);
  float host = 0.0f;
  EXPECT(!copies(&host, device.data, cudaMemcpyDeviceToDevice, stream));
  EXPECT(!copies(&host, pinned.data, cudaMemcpyDeviceToHost, stream));
  EXPECT(!copies(device.data, device.data, cudaMemcpyDeviceToDevice, stream));
  EXPECT(!copies(pinned.data, &host, cudaMemcpyHostToDevice, stream));
  EXPECT(cudaFree(&host) == cudaErrorInvalidValue);
  cudaGetLastError();
  EXPECT(copies(device.data, pinned.data, cudaMemcpyDefault, stream));
  EXPECT(cudaStreamBeginCapture(stream.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  EXPECT(!copies(device.data, &host, cudaMemcpyHostToDevice, stream));
  cudaGraph_t graph = nullptr;
  EXPECT(cudaStreamEndCapture(stream.stream, &graph) == cudaErrorStreamCaptureInvalidated);
  cudaGetLastError();
}

MTL_TEST(an_unread_error_is_reported_by_the_next_launch) {
  const Stream stream;
  const Number value(false);
  EXPECT(cudaSetDevice(99) == cudaErrorInvalidDevice);
  EXPECT(MTL_LAUNCH(put, in(stream), value.data, 1.0f) == cudaErrorInvalidDevice);
  EXPECT(MTL_LAUNCH(put, in(stream), value.data, 1.0f) == cudaSuccess);
}

bool is_refused(cudaError_t status, const char* text) {
  const bool as_expected = status == cudaErrorLaunchFailure && std::strstr(emulation::error(), text) != nullptr;
  if (!as_expected) std::printf("  got status %d: %s\n", status, emulation::error());
  emulation::clear_error();
  cudaGetLastError();
  return as_expected;
}

MTL_TEST(accesses_and_shared_memory_that_a_gpu_refuses_are_refused) {
  alignas(16) float values[8] = {};
  float result = 0.0f;
  EXPECT(MTL_LAUNCH(read_wide, (Launch{1, 1}), &result, values) == cudaSuccess);
  EXPECT(is_refused(MTL_LAUNCH(read_wide, (Launch{1, 1}), &result, values + 1), "16 bytes at an address that is not aligned"));
  EXPECT(MTL_LAUNCH(much_shared, (Launch{1, 1, 32 << 10}), &result) == cudaSuccess);
  // 16 KB of static and 33 KB of dynamic memory are more than a block gets without a request, and launch()
  // makes a request only for more than 48 KB of dynamic memory
  EXPECT(is_refused(MTL_LAUNCH(much_shared, (Launch{1, 1, 33 << 10}), &result), "static and dynamic shared memory"));
  EXPECT(MTL_LAUNCH(much_shared, (Launch{1, 1, 49 << 10}), &result) == cudaSuccess);
}

}  // namespace
}  // namespace mtl::tests

// Tests of emulated capture: work that is enqueued in a captured stream is executed when its graph is
// launched, and calls that a GPU's driver rejects during a capture are rejected.
#include <thread>

#include <functional>

#include "backends/cuda/launch.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

using cuda::Launch;

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  EXPECT(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess);
  return stream;
}

// Numbers in device memory, which the host can access here.
struct DeviceNumbers {
  explicit DeviceNumbers(int count) {
    void* taken = nullptr;
    EXPECT(cudaMalloc(&taken, static_cast<size_t>(count) * sizeof(int)) == cudaSuccess);
    data = static_cast<int*>(taken);
  }
  ~DeviceNumbers() { EXPECT(cudaFree(data) == cudaSuccess); }
  int* data;
};

__global__ void add_to(int* value, int what) {
  what *= 2;  // each launch has its own copy of a parameter
  if (threadIdx.x == 0) *value += what;
}

Launch in(cudaStream_t stream) { return {1, 32, 0, stream}; }

MTL_TEST(a_captured_stream_does_nothing_until_its_graph_is_launched) {
  const cudaStream_t stream = new_stream(), other = new_stream();
  const DeviceNumbers numbers(3);
  int &value = numbers.data[0] = 1, &copy = numbers.data[1] = 0, &outside = numbers.data[2] = 0, what = 5;
  EXPECT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  EXPECT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaErrorIllegalState);
  EXPECT(cudaGetLastError() == cudaErrorIllegalState);  // the next launch would return an error that was not taken
  EXPECT(MTL_LAUNCH(add_to, in(stream), &value, what) == cudaSuccess);
  what = 1000;  // no effect: the argument was passed by value
  EXPECT(cudaMemcpyAsync(&copy, &value, sizeof value, cudaMemcpyDeviceToDevice, stream) == cudaSuccess);
  EXPECT(cudaMemsetAsync(&value, 0, sizeof value, stream) == cudaSuccess);
  EXPECT(MTL_LAUNCH(add_to, in(other), &outside, 1) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  EXPECT(value == 1 && copy == 0 && outside == 2);
  cudaGraphExec_t executable = nullptr;
  EXPECT(cudaGraphInstantiate(&executable, graph) == cudaSuccess);
  EXPECT(cudaGraphDestroy(graph) == cudaSuccess);
  EXPECT(cudaGraphLaunch(executable, stream) == cudaSuccess);
  EXPECT(value == 0 && copy == 11);
  EXPECT(cudaGraphLaunch(executable, stream) == cudaSuccess);
  EXPECT(value == 0 && copy == 10 && outside == 2);
  EXPECT(cudaGraphExecDestroy(executable) == cudaSuccess);
}

// Tells whether a call while a stream is captured returns `expected` and invalidates the capture.
bool spoils(cudaError_t expected, const std::function<cudaError_t(cudaStream_t)>& call) {
  const cudaStream_t stream = new_stream();
  EXPECT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  const cudaError_t got = call(stream);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  cudaGetLastError();
  return got == expected && ended == cudaErrorStreamCaptureInvalidated && graph == nullptr;
}

MTL_TEST(what_waits_or_takes_memory_spoils_a_capture) {
  cudaEvent_t event = nullptr;
  EXPECT(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  void* memory = nullptr;
  EXPECT(spoils(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize));
  EXPECT(spoils(cudaErrorStreamCaptureUnsupported, [](cudaStream_t) { return cudaDeviceSynchronize(); }));
  EXPECT(spoils(cudaErrorStreamCaptureUnsupported, [&](cudaStream_t) { return cudaEventSynchronize(event); }));
  EXPECT(spoils(cudaErrorStreamCaptureUnsupported, [&](cudaStream_t) { return cudaEventQuery(event); }));
  EXPECT(spoils(cudaErrorStreamCaptureUnsupported, [&](cudaStream_t) { return cudaMalloc(&memory, 16); }));
  EXPECT(spoils(cudaErrorStreamCaptureIsolation,
                [&](cudaStream_t stream) { return cudaStreamWaitEvent(stream, event, 0); }));
  EXPECT(cudaEventDestroy(event) == cudaSuccess);
}

// The driver's thread-local capture mode: the engines of ranks make such calls while a pass of the training
// step is recorded.
MTL_TEST(what_other_threads_do_spoils_only_a_capture_that_concerns_them) {
  cudaEvent_t event = nullptr;
  EXPECT(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  for (const cudaStreamCaptureMode mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal}) {
    const bool concerns_all = mode == cudaStreamCaptureModeGlobal;
    const cudaStream_t stream = new_stream();
    EXPECT(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
    cudaError_t status = cudaSuccess;
    std::thread([&] { status = cudaEventQuery(event); }).join();
    EXPECT(status == (concerns_all ? cudaErrorStreamCaptureUnsupported : cudaSuccess));
    cudaGraph_t graph = nullptr;
    EXPECT(cudaStreamEndCapture(stream, &graph) == (concerns_all ? cudaErrorStreamCaptureInvalidated : cudaSuccess));
    if (graph != nullptr) EXPECT(cudaGraphDestroy(graph) == cudaSuccess);
    cudaGetLastError();
  }
  EXPECT(cudaEventDestroy(event) == cudaSuccess);
}

MTL_TEST(a_thread_that_knows_better_may_take_memory_while_it_captures) {
  const cudaStream_t stream = new_stream();
  EXPECT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  void* memory = nullptr;
  EXPECT(cudaMalloc(&memory, 16) == cudaSuccess && cudaFree(memory) == cudaSuccess);
  EXPECT(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess && mode == cudaStreamCaptureModeRelaxed);
  cudaGraph_t graph = nullptr;
  EXPECT(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  EXPECT(cudaGraphDestroy(graph) == cudaSuccess);
}

}  // namespace
}  // namespace mtl::tests

#include "backends/cuda/runtime/graphs.h"

#include <utility>

#include "backends/cuda/runtime/device.h"

namespace mtl::cuda {
namespace {

// Locked from the beginning to the end of a capture. Threads that do not record lock it while they enqueue
// work in the captured stream.
std::mutex recorded_stream;
// The capturing thread's lock on recorded_stream.
thread_local std::unique_lock<std::mutex> capture;

Status create_memory(void** memory) {
  *memory = device_memory().create_separate();
  return ok_status();
}

Status destroy_memory(void* memory) { return device_memory().destroy_separate(static_cast<MemoryArena*>(memory)); }

Status enter_memory(void* memory) { return device_memory().enter(static_cast<MemoryArena*>(memory)); }
void leave_memory() { device_memory().leave(); }

Status begin_capture() {
  if (capture.owns_lock()) return nested_capture();
  MTL_RETURN_IF_ERROR(use_device());
  std::unique_lock<std::mutex> begun(recorded_stream);
  // captures only the calls of this thread. All other threads, for example threads of a library or of another
  // rank, continue to work in their own streams
  MTL_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(compute_stream(), cudaStreamCaptureModeThreadLocal));
  capture = std::move(begun);
  return ok_status();
}

Status end_capture(void** graph) {
  if (!capture.owns_lock()) return no_capture();
  cudaGraph_t recorded = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(compute_stream(), &recorded);
  capture.unlock();
  MTL_RETURN_IF_ERROR(cuda_status(ended, "cudaStreamEndCapture"));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = graph == nullptr ? cudaSuccess : cudaGraphInstantiate(&executable, recorded, 0);
  cudaGraphDestroy(recorded);
  MTL_RETURN_IF_ERROR(cuda_status(error, "cudaGraphInstantiate"));
  if (graph != nullptr) *graph = executable;
  return ok_status();
}

Status launch(void* graph) {
  MTL_RETURN_IF_ERROR(refuse_while_capturing(kLaunchingGraph));
  MTL_RETURN_IF_ERROR(use_device());
  return cuda_status(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), compute_stream()), "cudaGraphLaunch");
}

// Destroys a graph. The driver frees it after the graph's last launch has finished.
void destroy(void* graph) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }

}  // namespace

const GraphFunctions* graph_functions() {
  static const GraphFunctions functions = {create_memory, destroy_memory, enter_memory, leave_memory,
                                           begin_capture, end_capture,    launch,       destroy};
  return &functions;
}

Status refuse_while_capturing(const char* what) {
  return capture.owns_lock() ? not_in_capture(what) : ok_status();
}

std::unique_lock<std::mutex> between_graphs() { return std::unique_lock<std::mutex>(recorded_stream); }

}  // namespace mtl::cuda

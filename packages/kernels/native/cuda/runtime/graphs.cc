#include "cuda/runtime/graphs.h"

#include "cuda/runtime/device.h"

namespace mtl::cuda {
namespace {

// As the mode of capture is: other threads enqueue in other streams.
thread_local bool is_capturing = false;

Status create_memory(void** memory) {
  *memory = create_device_memory();
  return ok_status();
}

Status destroy_memory(void* memory) { return destroy_device_memory(static_cast<MemoryArena*>(memory)); }

Status enter_memory(void* memory) { return enter_device_memory(static_cast<MemoryArena*>(memory)); }

Status begin_capture() {
  if (is_capturing) return error_status("MTL_CAPTURE", "a graph is being recorded already");
  MTL_RETURN_IF_ERROR(use_device());
  // of this thread: others (a library's, a rank's) go on with what they do
  MTL_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(compute_stream(), cudaStreamCaptureModeThreadLocal));
  is_capturing = true;
  return ok_status();
}

Status end_capture(void** graph) {
  if (!is_capturing) return error_status("MTL_CAPTURE", "no graph is being recorded");
  is_capturing = false;
  cudaGraph_t recorded = nullptr;
  MTL_RETURN_IF_CUDA_ERROR(cudaStreamEndCapture(compute_stream(), &recorded));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = graph == nullptr ? cudaSuccess : cudaGraphInstantiate(&executable, recorded, 0);
  cudaGraphDestroy(recorded);
  MTL_RETURN_IF_ERROR(cuda_status(error, "cudaGraphInstantiate"));
  if (graph != nullptr) *graph = executable;
  return ok_status();
}

Status launch(void* graph) {
  MTL_RETURN_IF_ERROR(refuse_while_capturing("launching a graph"));
  MTL_RETURN_IF_ERROR(use_device());
  return cuda_status(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), compute_stream()), "cudaGraphLaunch");
}

// The driver frees it when the last launch is done.
void destroy(void* graph) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }

}  // namespace

const GraphFunctions* graph_functions() {
  static const GraphFunctions functions = {create_memory, destroy_memory, enter_memory, leave_device_memory,
                                           begin_capture, end_capture,    launch,       destroy};
  return &functions;
}

Status refuse_while_capturing(const char* what) {
  if (!is_capturing) return ok_status();
  return error_status("MTL_CAPTURE", "%s cannot be part of a graph, and one is being recorded", what);
}

}  // namespace mtl::cuda
